package untrusted

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Check returns an error if data exceeds the limits. It does not check the syntax. It allocates
// nothing that grows with data.
func (l Limits) Check(data []byte) error {
	if len(data) > l.Bytes {
		return &LimitError{Kind: Bytes, Max: l.Bytes}
	}
	return NewScanner(l).Scan(data)
}

// Unmarshal does what json.Unmarshal does, for data within the limits. It changes nothing if data
// exceeds one, or is not JSON.
func (l Limits) Unmarshal(data []byte, into any) error {
	if err := l.Check(data); err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// Tree decodes one JSON value. Objects are map[string]any, lists []any, and numbers json.Number, so
// that they keep their digits. Of equal keys in one object the last one counts, as in encoding/json.
func (l Limits) Tree(data []byte) (any, error) {
	if err := l.Check(data); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, &SyntaxError{Problem: "it is empty"}
		}
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, &SyntaxError{Problem: "something follows the JSON value"}
	}
	return tree, nil
}
