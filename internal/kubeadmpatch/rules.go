package kubeadmpatch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
)

// fieldError reports what a patch must not set.
type fieldError struct {
	path []string
	// want is what may be in the field; empty for nothing.
	want string
}

// Error continues a sentence that begins with the patch. It has no values.
func (e *fieldError) Error() string {
	path := text.Bound(strings.Join(e.path, "."), maxPath)
	if e.want == "" {
		return "sets " + path + ", which can run anything as root on the host"
	}
	return fmt.Sprintf("sets %s to something other than %s", cmp.Or(path, "the whole document"), e.want)
}

// maxPath bounds the path of a field in an error, in bytes.
const maxPath = 120

// rule returns nil for a value that a patch may set.
type rule func(value any) *fieldError

// at applies a rule to a field.
func at(name string, check rule, value any) *fieldError {
	err := check(value)
	if err != nil {
		err.path = append([]string{name}, err.path...)
	}
	return err
}

// object is the rule for an object with some of the fields. The object itself may not be null, which
// would remove it.
func object(fields map[string]rule) rule {
	return func(value any) *fieldError {
		set, ok := value.(map[string]any)
		if !ok {
			return &fieldError{want: "an object"}
		}
		for _, name := range slices.Sorted(maps.Keys(set)) {
			check, known := fields[name]
			if !known {
				return &fieldError{path: []string{name}}
			}
			if err := at(name, check, set[name]); err != nil {
				return err
			}
		}
		return nil
	}
}

// container is the rule for an element in the list of containers. A strategic merge patch adds one if
// it finds none of that name.
func container(name string) rule {
	check := object(map[string]rule{"name": constant(name), resourcesField: resources})
	return func(value any) *fieldError {
		if set, ok := value.(map[string]any); ok && set["name"] == nil {
			return at("name", constant(name), nil)
		}
		return check(value)
	}
}

func list(check rule) rule {
	return func(value any) *fieldError {
		elements, ok := value.([]any)
		if !ok {
			return &fieldError{want: "a list"}
		}
		for i, element := range elements {
			if err := at(strconv.Itoa(i), check, element); err != nil {
				return err
			}
		}
		return nil
	}
}

// mapOf is the rule for an object with any names. A null removes it, or one of its values.
func mapOf(isValue func(any) bool, want string) rule {
	return orNull(func(value any) *fieldError {
		values, ok := value.(map[string]any)
		if !ok {
			return &fieldError{want: "an object"}
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if value := values[name]; value != nil && !isValue(value) {
				return &fieldError{path: []string{name}, want: want}
			}
		}
		return nil
	})
}

func orNull(check rule) rule {
	return func(value any) *fieldError {
		if value == nil {
			return nil
		}
		return check(value)
	}
}

func constant(want string) rule {
	return func(value any) *fieldError {
		if value != want {
			return &fieldError{want: want}
		}
		return nil
	}
}

// check avoids an error that is a nil pointer.
func check(r rule, value any) error {
	if err := r(value); err != nil {
		return err
	}
	return nil
}

// anything is the rule for any value without directives of strategic merge patches, except for the one
// that replaces or deletes an object. The library panics on some of the others, and so kubeadm does.
func anything(value any) *fieldError {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if strings.HasPrefix(name, "$") && (name != "$patch" || !isText(value[name])) {
				return &fieldError{path: []string{name}}
			}
			if err := at(name, anything, value[name]); err != nil {
				return err
			}
		}
	case []any:
		return list(anything)(value)
	}
	return nil
}

func isText(value any) bool {
	_, ok := value.(string)
	return ok
}

func isQuantity(value any) bool {
	_, ok := value.(json.Number)
	return ok || isText(value)
}
