package recordjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/windlass-dev/windlass/internal/untrusted"
)

// keyTag is the struct tag `record:"key"` of the fields that identify an object of a record.
const keyTag = "record"

// Encode returns the JSON of value, which takes the place of before. It keeps the fields of before
// that the type of value does not have: a newer release has written them.
//
// Such a field stays in its object as long as the object is about the same thing, which its fields
// with the tag `record:"key"` tell. An object without such fields is always about the same thing,
// except in a list, where it keeps nothing. A before that is empty, no JSON or beyond the limits of an
// annotation is replaced.
func Encode(value any, before string) (string, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encoding a record: %w", err)
	}
	var now any
	kept := false
	if old, err := untrusted.Annotation.Tree([]byte(before)); err == nil {
		if now, err = untrusted.Annotation.Tree(encoded); err == nil {
			keep(reflect.TypeOf(value), old, now, &kept)
		}
	}
	if !kept {
		return string(encoded), nil
	}
	if encoded, err = json.Marshal(now); err != nil {
		return "", fmt.Errorf("encoding a record: %w", err)
	}
	return string(encoded), nil
}

// keep adds to now, the JSON of a t, the fields of old that t does not have, and sets kept if there
// are any.
func keep(t reflect.Type, old, now any, kept *bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() { //nolint:exhaustive // Other kinds have no fields.
	case reflect.Struct:
		before, after, ok := both[map[string]any](old, now)
		if ok && !encodesItself(t) {
			keepFields(fieldsOf(t), before, after, kept)
		}
	case reflect.Slice:
		before, after, ok := both[[]any](old, now)
		if ok {
			keepItems(t.Elem(), before, after, kept)
		}
	}
}

func both[T any](old, now any) (before, after T, ok bool) {
	before, wasOne := old.(T)
	after, isOne := now.(T)
	return before, after, wasOne && isOne
}

func keepFields(f fields, before, after map[string]any, kept *bool) {
	if !f.isSame(before, after) {
		return
	}
	for name, value := range before {
		t, known := f.types[strings.ToLower(name)]
		if !known {
			after[name], *kept = value, true
			continue
		}
		keep(t, value, after[name], kept)
	}
}

// keepItems keeps the fields of items with equal keys.
func keepItems(t reflect.Type, before, after []any, kept *bool) {
	if t.Kind() != reflect.Struct || encodesItself(t) || len(fieldsOf(t).keys) == 0 {
		return
	}
	f := fieldsOf(t)
	used := make([]bool, len(before))
	for _, item := range after {
		for i := range before {
			old, now, ok := both[map[string]any](before[i], item)
			if ok && !used[i] && f.isSame(old, now) {
				used[i] = true
				keepFields(f, old, now, kept)
				break
			}
		}
	}
}

// fields are the fields of a struct in JSON.
type fields struct {
	// types are by names in lower case, because encoding/json ignores case when it reads.
	types map[string]reflect.Type
	keys  []string
}

func (f fields) isSame(before, after map[string]any) bool {
	for _, key := range f.keys {
		if !reflect.DeepEqual(before[key], after[key]) {
			return false
		}
	}
	return true
}

func fieldsOf(t reflect.Type) fields {
	f := fields{types: map[string]reflect.Type{}}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || name == "-" || field.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = field.Name
		}
		f.types[strings.ToLower(name)] = field.Type
		if field.Tag.Get(keyTag) == "key" {
			f.keys = append(f.keys, name)
		}
	}
	return f
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// encodesItself reports whether the fields of a type are not those of its JSON, as with time.Time.
func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(marshaler) || p.Implements(textMarshaler)
}
