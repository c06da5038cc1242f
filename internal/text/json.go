package text

import (
	"bytes"
	"encoding/json"
)

// List is [] in JSON where it has no items.
type List[T any] []T

// MarshalJSON implements json.Marshaler.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return EncodeJSON([]T(l))
}

// EncodeJSON keeps an arrow in a message an arrow: people read it too.
func EncodeJSON(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return text.Bytes(), err //nolint:wrapcheck // json adds which type it is about.
}
