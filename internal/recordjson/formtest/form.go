package formtest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing" //nolint:depguard // Tests alone import this package.

	"github.com/google/go-cmp/cmp" //nolint:depguard // Tests alone import this package.
)

// Form is the form of a record that is JSON.
type Form[T any] struct {
	// Name is the name of its file, without its ending.
	Name string
	// Value has a value other than zero in each field.
	Value T
	// Write is the product's writer. It returns what takes the place of before.
	Write func(value T, before string) (string, error)
	// Read is the product's reader.
	Read func(text string) (T, error)
	// Once says that the record is never written again, so that it need not keep what a later
	// release adds.
	Once bool
	// Maps are the names of objects whose fields are names that people chose.
	Maps []string
	// Enums are the names of fields whose values are a list to which a later release may add.
	// Refuses says that Read fails for other values, because nothing may be done then.
	Enums   []string
	Refuses bool
}

// Test checks the form.
func (f Form[T]) Test(t *testing.T, options ...cmp.Option) {
	t.Helper()
	for _, path := range zeroFields(reflect.ValueOf(f.Value), f.Name, nil) {
		t.Errorf("%s has no value in the form", path)
	}
	written, err := f.Write(f.Value, "")
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(written), "", "  "); err != nil {
		t.Fatal(err)
	}
	forms := readForms(t, f.Name+".json", indented.String()+"\n")
	for release, text := range forms {
		t.Run(f.Name+" of "+release, func(t *testing.T) {
			value := f.read(t, text)
			if release == Release {
				if diff := cmp.Diff(f.Value, value, options...); diff != "" {
					t.Errorf("the form is read as something else:\n%s", diff)
				}
			}
			f.testRewrite(t, text)
			added := mapJSON(t, text, f.addFields)
			if diff := cmp.Diff(value, f.read(t, added), options...); diff != "" {
				t.Errorf("with fields of a later release it is read as something else:\n%s", diff)
			}
			f.testRewrite(t, added)
			f.testEnums(t, text)
		})
	}
}

func (f Form[T]) read(t *testing.T, text string) T {
	t.Helper()
	value, err := f.Read(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return value
}

// testRewrite has a form read and written again: nothing in it is lost or changed.
func (f Form[T]) testRewrite(t *testing.T, text string) {
	t.Helper()
	if f.Once {
		return
	}
	again, err := f.Write(f.read(t, text), text)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lost(parse(t, text), parse(t, again), f.Name) {
		t.Errorf("%s is lost, or another one, after it was written again:\n%s\n%s", path, text, again)
	}
}

// testEnums has forms with unknown values read.
func (f Form[T]) testEnums(t *testing.T, text string) {
	t.Helper()
	for _, name := range f.Enums {
		found := false
		later := mapJSON(t, text, func(_ string, fields map[string]any) {
			if _, has := fields[name]; has {
				fields[name], found = "LaterRelease", true
			}
		})
		switch _, err := f.Read(later); {
		case !found:
			t.Errorf("the form has no field %s", name)
		case f.Refuses && err == nil:
			t.Errorf("an unknown value of %s is taken for a known one", name)
		case !f.Refuses:
			f.testRewrite(t, later)
		}
	}
}

// addFields adds what a later release may add.
func (f Form[T]) addFields(name string, fields map[string]any) {
	if slices.Contains(f.Maps, name) {
		return
	}
	fields["laterRelease"] = map[string]any{"adds": []any{"this", json.Number("1")}}
}

// mapJSON changes each object of a text. The name is that of the field that holds the object.
func mapJSON(t *testing.T, text string, change func(name string, fields map[string]any)) string {
	t.Helper()
	var walk func(name string, value any)
	walk = func(name string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for field, inner := range value {
				walk(field, inner)
			}
			change(name, value)
		case []any:
			for _, item := range value {
				walk(name, item)
			}
		}
	}
	value := parse(t, text)
	walk("", value)
	changed, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(changed)
}

func parse(t *testing.T, text string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// lost returns the paths of what before has and after has not, or has otherwise.
func lost(before, after any, path string) []string {
	switch before := before.(type) {
	case map[string]any:
		after, ok := after.(map[string]any)
		if !ok {
			return []string{path}
		}
		var paths []string
		for name, value := range before {
			paths = append(paths, lost(value, after[name], path+"."+name)...)
		}
		return paths
	case []any:
		after, ok := after.([]any)
		if !ok || len(after) != len(before) {
			return []string{path}
		}
		var paths []string
		for i, value := range before {
			paths = append(paths, lost(value, after[i], path+"[]")...)
		}
		return paths
	}
	if before != after {
		return []string{path}
	}
	return nil
}

// zeroFields returns the paths of fields that JSON shows and that are zero in v. A type is looked
// at once on each way down: a record may hold an earlier one of its kind.
func zeroFields(v reflect.Value, path string, above []reflect.Type) []string {
	switch v.Kind() { //nolint:exhaustive // Other kinds have no fields.
	case reflect.Pointer:
		if !v.IsNil() {
			return zeroFields(v.Elem(), path, above)
		}
	case reflect.Slice:
		var paths []string
		for i := range v.Len() {
			paths = append(paths, zeroFields(v.Index(i), path+"[]", above)...)
		}
		return paths
	case reflect.Struct:
		if slices.Contains(above, v.Type()) {
			return nil
		}
		var paths []string
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() || field.Tag.Get("json") == "-" {
				continue
			}
			name := path + "." + field.Name
			if v.Field(i).IsZero() {
				paths = append(paths, name)
				continue
			}
			inner := zeroFields(v.Field(i), name, append(slices.Clone(above), v.Type()))
			paths = append(paths, inner...)
		}
		return paths
	}
	return nil
}
