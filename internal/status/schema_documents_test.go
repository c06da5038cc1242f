package status

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/internal/text"
)

// resolve follows a reference.
func (s *schemas) resolve(of *schema) *schema {
	if of.Ref != "" {
		return s.defs[strings.TrimPrefix(of.Ref, refPrefix)]
	}
	return of
}

// validate returns why a value does not match a schema; empty if it does.
func (s *schemas) validate(of *schema, value any, at string) string {
	of = s.resolve(of)
	if of.OneOf != nil && slices.ContainsFunc(of.OneOf, func(o *schema) bool { return s.validate(o, value, at) == "" }) {
		return ""
	}
	kind := ""
	switch v := value.(type) {
	case map[string]any:
		kind = "object"
		for _, name := range of.Required {
			if _, ok := v[name]; !ok {
				return at + "." + name + " is missing"
			}
		}
		for name, item := range v {
			property := of.Properties[name]
			if property == nil {
				return at + "." + name + " is unknown"
			}
			if why := s.validate(property, item, at+"."+name); why != "" {
				return why
			}
		}
	case []any:
		kind = "array"
		for i, item := range v {
			if of.Items == nil {
				break
			}
			if why := s.validate(of.Items, item, fmt.Sprintf("%s[%d]", at, i)); why != "" {
				return why
			}
		}
	case string:
		kind = "string"
	case bool:
		kind = "boolean"
	case float64:
		if v == float64(int64(v)) {
			kind = "integer"
		}
	}
	if of.Type != kind {
		return fmt.Sprintf("%s is %v", at, value)
	}
	return ""
}

// fill sets every field that can be set, also those of lists.
func fill(v reflect.Value) {
	if at, ok := reflect.TypeAssert[*time.Time](v.Addr()); ok {
		*at = start
		return
	}
	if either, ok := reflect.TypeAssert[*intstr.IntOrString](v.Addr()); ok {
		*either = intstr.FromString("10%")
		return
	}
	switch kind := v.Kind(); {
	case kind == reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				fill(field)
			}
		}
		if e, ok := reflect.TypeAssert[*Estimate](v.Addr()); ok {
			e.Unknown = "" // There is an estimate, or a reason why not.
		}
	case kind == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case kind == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case kind == reflect.String:
		v.SetString("x")
	case kind == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(int64(time.Minute))
	}
}

// TestDocumentsMatchSchema: what is written matches the schema, whether fields are set or not.
func TestDocumentsMatchSchema(t *testing.T) {
	s := makeSchema(t)
	for _, full := range []bool{false, true} {
		for _, document := range []any{new(Report), new(Fleet)} {
			value := reflect.ValueOf(document).Elem()
			if full {
				fill(value)
			}
			encodedText, err := text.EncodeJSON(document)
			if err != nil {
				t.Fatal(err)
			}
			var decoded any
			if err := json.Unmarshal(encodedText, &decoded); err != nil {
				t.Fatal(err)
			}
			if why := s.validate(s.of(value.Type()), decoded, value.Type().Name()); why != "" {
				t.Errorf("set=%t: %s:\n%s", full, why, encodedText)
			}
			if full {
				s.checkAll(t, s.of(value.Type()), decoded, value.Type().Name())
			}
		}
	}
}

// checkAll checks that a document in which every field is set has every field of the schema.
func (s *schemas) checkAll(t *testing.T, of *schema, value any, at string) {
	t.Helper()
	of = s.resolve(of)
	switch v := value.(type) {
	case map[string]any:
		for name, property := range of.Properties {
			item, ok := v[name]
			if !ok {
				t.Errorf("%s.%s is in the schema, but never written", at, name)
				continue
			}
			s.checkAll(t, property, item, at+"."+name)
		}
	case []any:
		for _, item := range v {
			s.checkAll(t, of.Items, item, at+"[]")
		}
	}
}
