package status

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// List is [] in JSON where it has no items.
type List[T any] []T

// MarshalJSON implements json.Marshaler.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return encode([]T(l))
}

// MarshalJSON shows every state, also those that no machine is in.
func (c Counts) MarshalJSON() ([]byte, error) {
	all := make(map[State]int, len(States()))
	for _, s := range States() {
		all[s] = c[s]
	}
	return encode(all)
}

// Seconds are whole seconds in JSON.
type Seconds struct{ time.Duration }

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, int64(s.Duration/time.Second), 10), nil
}

// encode keeps an arrow in a message an arrow: people read it too.
func encode(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return text.Bytes(), err //nolint:wrapcheck // json adds which type it is about.
}
