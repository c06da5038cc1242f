package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Decode adds the objects of one file to the set; name is what errors call the file. It is pure: it reads nothing but
// data. The error is an *Error; the set is then not to be used.
func (s *Set) Decode(name string, data []byte) error {
	s.files = append(s.files, name)
	// JSON values may follow each other without a marker; each counts as a document of its own.
	more := 0
	for _, d := range splitDocuments(name, data) {
		d.origin.Document += more
		values, err := d.values()
		if err != nil {
			return err
		}
		for i, value := range values {
			origin := d.origin
			origin.Document += i
			if err := s.decodeValue(origin, value); err != nil {
				if known, ok := errors.AsType[*Error](err); ok {
					known.Problem += templateHint(value)
				}
				return err
			}
		}
		more += len(values) - 1
	}
	return nil
}

// header is what says of which kind an object is.
type header struct {
	metav1.TypeMeta `json:",inline"`
	// Items make a List.
	Items []json.RawMessage `json:"items"`
}

const noObject = "it is not a Kubernetes object: an object begins with apiVersion and kind"

func (s *Set) decodeValue(origin Origin, value []byte) error {
	if string(value) == "null" {
		return nil
	}
	if value[0] != '{' {
		return &Error{Origin: origin, Problem: noObject}
	}
	var h header
	if err := unmarshal(origin, value, &h); err != nil {
		return err
	}
	if s.objects++; s.objects > MaxObjects {
		return &Error{Origin: origin, Problem: fmt.Sprintf("the files together hold more than %d objects", MaxObjects)}
	}
	if (h.Kind == "") != (h.APIVersion == "") {
		missing := "kind"
		if h.APIVersion == "" {
			missing = "apiVersion"
		}
		return &Error{Origin: origin, Field: missing, Problem: "it is missing"}
	}
	if strings.HasSuffix(h.Kind, "List") && h.Items != nil {
		return s.decodeList(origin, h)
	}
	group, err := schema.ParseGroupVersion(h.APIVersion)
	if err != nil {
		return &Error{Origin: origin, Field: "apiVersion", Problem: fmt.Sprintf("%q is not a group and a version, such as cluster.x-k8s.io/v1beta2", h.APIVersion), Err: err}
	}
	return s.decodeObject(origin, group.WithKind(h.Kind), value)
}

// decodeList decodes the items of a List, as kubectl writes them. Items of typed lists may lack apiVersion and kind; they
// have the list's.
func (s *Set) decodeList(origin Origin, list header) error {
	if origin.Item > 0 {
		// Lists within lists do not exist in Kubernetes, and refusing them bounds the recursion.
		return &Error{Origin: origin, Problem: "it is a list within a list"}
	}
	kind := strings.TrimSuffix(list.Kind, "List")
	for i, item := range list.Items {
		itemOrigin := origin
		itemOrigin.Item = i + 1
		if kind != "" {
			var h header
			if err := unmarshal(itemOrigin, item, &h); err != nil {
				return err
			}
			if h.Kind == "" && h.APIVersion == "" {
				group, err := schema.ParseGroupVersion(list.APIVersion)
				if err != nil {
					return &Error{Origin: origin, Field: "apiVersion", Problem: fmt.Sprintf("%q is not a group and a version", list.APIVersion), Err: err}
				}
				if err := s.decodeObject(itemOrigin, group.WithKind(kind), item); err != nil {
					return err
				}
				continue
			}
		}
		if err := s.decodeValue(itemOrigin, item); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) decodeObject(origin Origin, gvk schema.GroupVersionKind, value []byte) error {
	if s.takeRaw != nil {
		return s.takeRaw(origin, gvk, value)
	}
	decode, known := kinds[gvk.GroupKind()]
	if !known {
		decode = decodeOther
	}
	object, err := decode(s, origin, gvk.Version, value)
	if err != nil || object == nil {
		return err
	}
	if s.origins == nil {
		s.origins = map[metav1.Object]Origin{}
	}
	if object.GetName() == "" {
		return &Error{Origin: origin, Field: "metadata.name", Problem: fmt.Sprintf("the %s has no name", gvk.Kind)}
	}
	s.origins[object] = origin
	return nil
}

// unmarshal decodes JSON into a typed value. Like the API server it tells upper case from lower case; an unknown field is
// ignored, because it may come from a newer Cluster API.
func unmarshal(origin Origin, value []byte, into any) error {
	err := utiljson.Unmarshal(value, into)
	if err == nil {
		return nil
	}
	if typeError, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &Error{
			Origin: origin, Field: typeError.Field, Err: err,
			Problem: describeMismatch(typeError),
		}
	}
	return &Error{Origin: origin, Problem: "it cannot be decoded: " + err.Error(), Err: err}
}

// describeMismatch says what was expected. It knows the trap that Kubernetes versions set in YAML, where 1.30 is a number,
// and the same as 1.3.
func describeMismatch(e *json.UnmarshalTypeError) string {
	t := e.Type
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	got, _, _ := strings.Cut(e.Value, " ")
	words := map[string]string{"array": "a list", "object": "an object", "bool": "true or false"}
	if word, known := words[got]; known {
		got = word
	} else {
		got = "a " + got
	}
	text := fmt.Sprintf("it must be %s, not %s", describeKind(t), got)
	if t.Kind() == reflect.String && got == "a number" {
		text += ". Fix: put it in quotes"
	}
	return text
}

// kindNames say which JSON a kind of Go type wants. Other kinds do not occur in API types.
var kindNames = map[reflect.Kind]string{ //nolint:exhaustive // See above; the rest has a default.
	reflect.String: "a string", reflect.Bool: "true or false",
	reflect.Int: "a number", reflect.Int32: "a number", reflect.Int64: "a number", reflect.Float64: "a number",
	reflect.Slice: "a list", reflect.Struct: "an object", reflect.Map: "an object",
}

func describeKind(t reflect.Type) string {
	if name, known := kindNames[t.Kind()]; known {
		return name
	}
	return "a " + t.String()
}
