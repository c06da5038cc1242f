package status

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/internal/text"
)

// The schema and the tables of the page are made from the types and their comments.
const (
	schemaFile = "../../docs/reference/status-output.schema.json"
	schemaPage = "../../docs/reference/status-output.md"
	tablesFrom = "<!-- The tables are made by: WINDLASS_UPDATE=1 go test -run TestSchema ./internal/status -->\n"
)

// encoded are the types whose JSON is another one than that of their fields, and what it is of.
var encoded = map[reflect.Type]reflect.Type{
	reflect.TypeFor[MachineUpgrade](): reflect.TypeFor[machineUpgradeDocument](),
	reflect.TypeFor[Estimate]():       reflect.TypeFor[estimateDocument](),
	reflect.TypeFor[Seconds]():        reflect.TypeFor[int](),
}

type object = map[string]any

// schemas makes schemas of types.
type schemas struct {
	t *testing.T
	// comments are those of fields, by type and field, and of types by the type alone. values are the
	// constants of types.
	comments map[string]string
	values   map[string][]string
	defs     object
	// fields are those of structs in their order.
	fields map[string][]string
	// order are the names of the structs, as they are met.
	order []string
}

func (s *schemas) of(t reflect.Type) object {
	if t.Kind() == reflect.Pointer {
		return s.of(t.Elem())
	}
	if as, ok := encoded[t]; ok {
		return s.of(as)
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[intstr.IntOrString]():
		return object{"type": []string{"integer", "string"}}
	case t == reflect.TypeFor[Counts]():
		return s.counts()
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return object{"type": "string"}
	}
	isList := t.Kind() == reflect.Slice && strings.HasPrefix(t.Name(), "List[")
	if t.Implements(reflect.TypeFor[json.Marshaler]()) && !isList {
		s.t.Fatalf("%s encodes itself: say in encoded what its JSON is of", t)
	}
	switch t.Kind() {
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Struct:
		return s.ref(t)
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return object{"type": "integer"}
	}
	s.t.Fatalf("%s has no schema", t)
	return nil
}

func (s *schemas) counts() object {
	properties := object{}
	for _, state := range States() {
		properties[string(state)] = object{"type": "integer"}
	}
	required := slices.Sorted(maps.Keys(properties))
	return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// nameOf is the name of a type in the schema.
func nameOf(t reflect.Type) string {
	name := strings.TrimSuffix(t.Name(), "Document")
	return strings.ToUpper(name[:1]) + name[1:]
}

func (s *schemas) ref(t reflect.Type) object {
	name := nameOf(t)
	if _, known := s.defs[name]; !known {
		s.defs[name] = object{} // A type may contain itself.
		s.order = append(s.order, name)
		properties, required := object{}, []string{}
		s.addFields(t, name, properties, &required)
		slices.Sort(required)
		description := s.comments[name]
		if description == "" {
			description = s.comments[t.Name()]
		}
		s.defs[name] = object{
			"type": "object", "description": description, "properties": properties,
			"required": required, "additionalProperties": false,
		}
	}
	return object{"$ref": "#/$defs/" + name}
}

func (s *schemas) addFields(t reflect.Type, of string, properties object, required *[]string) {
	for f := range reflectFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case f.Anonymous && name == "":
			s.addFields(f.Type, of, properties, required)
			continue
		case name == "":
			s.t.Fatalf("%s.%s has no name in JSON", t, f.Name)
		}
		property := s.of(f.Type)
		if comment := s.describe(t, f); comment != "" {
			property["description"] = comment
		}
		properties[name] = property
		s.fields[of] = append(s.fields[of], name)
		if !strings.Contains(options, "omit") {
			*required = append(*required, name)
		}
	}
}

// describe returns the comment of a field, in which fields have their names in JSON.
func (s *schemas) describe(t reflect.Type, f reflect.StructField) string {
	names := map[string]string{}
	for other := range reflectFields(t) {
		name, _, _ := strings.Cut(other.Tag.Get("json"), ",")
		names[other.Name] = name
	}
	words, before := strings.Fields(s.comments[t.Name()+"."+f.Name]), ""
	for i, word := range words {
		bare := strings.Trim(word, ",.;:()")
		isNoun := slices.Contains([]string{"a", "the", "of", "api's", "api"}, strings.ToLower(before))
		isProduct := bare == "Cluster" && i+1 < len(words) && strings.HasPrefix(words[i+1], "API")
		if name := names[bare]; name != "" && !isProduct && (!isNoun || before == "of" && strings.HasSuffix(bare, "s")) {
			words[i] = strings.Replace(word, bare, "`"+name+"`", 1)
		}
		if bare == "nil" {
			words[i] = strings.Replace(word, bare, "left out", 1)
		}
		before = word
	}
	if values := s.values[f.Type.Name()]; len(values) > 0 && f.Type.PkgPath() == reflect.TypeFor[Report]().PkgPath() {
		words = append(words, "One of: "+strings.Join(values, ", ")+".")
	}
	return strings.Join(words, " ")
}

// reflectFields returns the fields that JSON shows.
func reflectFields(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for _, f := range reflect.VisibleFields(t) {
			if len(f.Index) == 1 && f.IsExported() && !yield(f) {
				return
			}
		}
	}
}

// readComments reads those of the types of a package. A field without one has that of the field before,
// if it names the field.
func (s *schemas) readComments(folder string) {
	t, into := s.t, s.comments
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	line := func(comment string) string {
		return strings.NewReplacer("[", "", "]", "").Replace(strings.Join(strings.Fields(comment), " "))
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			d, ok := n.(*ast.GenDecl)
			if ok && d.Tok == token.CONST {
				s.readValues(d)
			}
			if !ok || d.Tok != token.TYPE || len(d.Specs) != 1 {
				return true
			}
			spec := d.Specs[0].(*ast.TypeSpec)
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			into[spec.Name.Name] = line(d.Doc.Text())
			last := ""
			for _, f := range fields.Fields.List {
				if f.Doc != nil {
					last = line(f.Doc.Text())
				}
				for _, name := range f.Names {
					if f.Doc != nil || slices.Contains(strings.FieldsFunc(last, func(r rune) bool { return strings.ContainsRune(" ,.;:()-", r) }), name.Name) {
						into[spec.Name.Name+"."+name.Name] = last
					}
				}
			}
			return true
		})
	}
}

// readValues reads the constants of types.
func (s *schemas) readValues(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		kind, ok := v.Type.(*ast.Ident)
		for _, value := range v.Values {
			if literal, isText := value.(*ast.BasicLit); ok && isText {
				s.values[kind.Name] = append(s.values[kind.Name], strings.Trim(literal.Value, `"`))
			}
		}
	}
}

func makeSchema(t *testing.T) *schemas {
	t.Helper()
	s := &schemas{
		t: t, comments: map[string]string{}, values: map[string][]string{}, defs: object{},
		fields: map[string][]string{},
	}
	for _, folder := range []string{"../inplace/cover", "../pool", "."} {
		s.readComments(folder)
	}
	s.of(reflect.TypeFor[Report]())
	s.of(reflect.TypeFor[Fleet]())
	return s
}

// document returns the schema as it is in the file.
func (s *schemas) document() string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err := encoder.Encode(object{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "The documents of windlass status -o json",
		"oneOf":   []object{{"$ref": "#/$defs/Report"}, {"$ref": "#/$defs/Fleet"}},
		"$defs":   s.defs,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return out.String()
}

// tables returns the tables of the page.
func (s *schemas) tables() string {
	var out strings.Builder
	for _, name := range s.order {
		def := s.defs[name].(object)
		fmt.Fprintf(&out, "\n### %s\n\n%s\n\n| Field | Type | Meaning |\n|---|---|---|\n", name, wrap(def["description"].(string)))
		properties, required := def["properties"].(object), def["required"].([]string)
		last := ""
		for _, field := range s.fields[name] {
			property := properties[field].(object)
			kind := describeType(property)
			if !slices.Contains(required, field) {
				kind += ", or left out"
			}
			meaning, _ := property["description"].(string)
			if meaning == last && meaning != "" {
				meaning = "(see above)"
			} else {
				last = meaning
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", field, kind, strings.ReplaceAll(meaning, "|", "\\|"))
		}
	}
	return out.String()
}

func describeType(property object) string {
	if ref, ok := property["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/$defs/")
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	}
	kind, _ := property["type"].(string)
	switch {
	case kind == "":
		return "integer or string"
	case kind == "array":
		return "list of " + describeType(property["items"].(object))
	case property["format"] != nil:
		return "time"
	case property["properties"] != nil:
		return "a number for each state"
	default:
		return kind
	}
}

// wrap breaks a text at 120 columns.
func wrap(words string) string {
	var out strings.Builder
	column := 0
	for word := range strings.FieldsSeq(words) {
		switch {
		case column == 0:
		case column+1+len(word) > 120:
			out.WriteString("\n")
			column = 0
		default:
			out.WriteString(" ")
			column++
		}
		out.WriteString(word)
		column += len(word)
	}
	return out.String()
}

// TestSchema: the schema and the page have every field of the documents, and no other.
func TestSchema(t *testing.T) {
	s := makeSchema(t)
	page, err := os.ReadFile(schemaPage)
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(page), tablesFrom)
	if !found {
		t.Fatalf("%s has no line for the tables: %s", schemaPage, tablesFrom)
	}
	for file, want := range map[string]string{
		schemaFile: s.document(), schemaPage: before + tablesFrom + s.tables(),
	} {
		if os.Getenv("WINDLASS_UPDATE") != "" {
			if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is another one. Fix: WINDLASS_UPDATE=1 go test -run TestSchema ./internal/status (-want +got):\n%s", file, diff)
		}
	}
}

// validate returns why a value does not match a schema; empty if it does.
func (s *schemas) validate(schema object, value any, at string) string {
	if ref, ok := schema["$ref"].(string); ok {
		return s.validate(s.defs[strings.TrimPrefix(ref, "#/$defs/")].(object), value, at)
	}
	isType := false
	is := func(kind string) bool {
		several, _ := schema["type"].([]string)
		return schema["type"] == kind || slices.Contains(several, kind)
	}
	switch v := value.(type) {
	case map[string]any:
		properties := schema["properties"].(object)
		for _, name := range schema["required"].([]string) {
			if _, ok := v[name]; !ok {
				return at + "." + name + " is missing"
			}
		}
		for name, item := range v {
			property, ok := properties[name].(object)
			if !ok {
				return at + "." + name + " is unknown"
			}
			if why := s.validate(property, item, at+"."+name); why != "" {
				return why
			}
		}
		isType = is("object")
	case []any:
		isType = is("array")
		for i, item := range v {
			if why := s.validate(schema["items"].(object), item, fmt.Sprintf("%s[%d]", at, i)); why != "" {
				return why
			}
		}
	case string:
		isType = is("string")
	case bool:
		isType = is("boolean")
	case float64:
		isType = is("integer") && v == float64(int64(v))
	}
	if !isType {
		return fmt.Sprintf("%s is %v", at, value)
	}
	return ""
}

// fill sets every field that can be set, also those of lists.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(start))
			return
		}
		if v.Type() == reflect.TypeFor[intstr.IntOrString]() {
			v.Set(reflect.ValueOf(intstr.FromString("10%")))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
		if e, ok := v.Addr().Interface().(*Estimate); ok {
			e.Unknown = "" // There is an estimate, or a reason why not.
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
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
func (s *schemas) checkAll(t *testing.T, schema object, value any, at string) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		schema = s.defs[strings.TrimPrefix(ref, "#/$defs/")].(object)
	}
	switch v := value.(type) {
	case map[string]any:
		for name, property := range schema["properties"].(object) {
			item, ok := v[name]
			if !ok {
				t.Errorf("%s.%s is in the schema, but never written", at, name)
				continue
			}
			s.checkAll(t, property.(object), item, at+"."+name)
		}
	case []any:
		for _, item := range v {
			s.checkAll(t, schema["items"].(object), item, at+"[]")
		}
	}
}
