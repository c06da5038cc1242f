package status

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
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

// schema is a JSON schema, as far as it is used.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Ref         string             `json:"$ref,omitempty"`
	Type        string             `json:"type,omitempty"`
	Format      string             `json:"format,omitempty"`
	Description string             `json:"description,omitempty"`
	OneOf       []*schema          `json:"oneOf,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	// Closed is false for objects, which have no other fields.
	Closed *bool              `json:"additionalProperties,omitempty"`
	Defs   map[string]*schema `json:"$defs,omitempty"`
	// order are the names of Properties in their order.
	order []string
}

const refPrefix = "#/$defs/"

// schemas makes schemas of types.
type schemas struct {
	t *testing.T
	// comments are those of fields, by type and field, and of types by the type alone. values are the
	// constants of types.
	comments map[string]string
	values   map[string][]string
	defs     map[string]*schema
	// order are the names of the structs, as they are met.
	order []string
}

func (s *schemas) of(t reflect.Type) *schema {
	if t.Kind() == reflect.Pointer {
		return s.of(t.Elem())
	}
	if as, ok := encoded[t]; ok {
		return s.of(as)
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &schema{Type: "string", Format: "date-time"}
	case t == reflect.TypeFor[intstr.IntOrString]():
		return &schema{OneOf: []*schema{{Type: "integer"}, {Type: "string"}}}
	case t == reflect.TypeFor[Counts]():
		counts := s.object()
		for _, state := range States() {
			counts.add(string(state), &schema{Type: "integer"}, true)
		}
		return counts
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return &schema{Type: "string"}
	}
	isList := t.Kind() == reflect.Slice && strings.HasPrefix(t.Name(), "List[")
	if t.Implements(reflect.TypeFor[json.Marshaler]()) && !isList {
		s.t.Fatalf("%s encodes itself: say in encoded what its JSON is of", t)
	}
	switch kind := t.Kind(); {
	case kind == reflect.Slice:
		return &schema{Type: "array", Items: s.of(t.Elem())}
	case kind == reflect.Struct:
		return s.ref(t)
	case kind == reflect.String:
		return &schema{Type: "string"}
	case kind == reflect.Bool:
		return &schema{Type: "boolean"}
	case t.ConvertibleTo(reflect.TypeFor[int]()):
		return &schema{Type: "integer"}
	}
	s.t.Fatalf("%s has no schema", t)
	return nil
}

func (s *schemas) object() *schema {
	return &schema{Type: "object", Properties: map[string]*schema{}, Closed: new(bool)}
}

// add adds a field to an object.
func (o *schema) add(name string, property *schema, required bool) {
	o.Properties[name] = property
	o.order = append(o.order, name)
	if required {
		o.Required = append(o.Required, name)
		slices.Sort(o.Required)
	}
}

// nameOf is the name of a type in the schema.
func nameOf(t reflect.Type) string {
	name := strings.TrimSuffix(t.Name(), "Document")
	return strings.ToUpper(name[:1]) + name[1:]
}

func (s *schemas) ref(t reflect.Type) *schema {
	name := nameOf(t)
	if s.defs[name] == nil {
		o := s.object()
		s.defs[name] = o // A type may contain itself.
		s.order = append(s.order, name)
		s.addFields(t, o)
		o.Description = cmp.Or(s.comments[name], s.comments[t.Name()])
	}
	return &schema{Ref: refPrefix + name}
}

func (s *schemas) addFields(t reflect.Type, to *schema) {
	for f := range reflectFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case f.Anonymous && name == "":
			s.addFields(f.Type, to)
			continue
		case name == "":
			s.t.Fatalf("%s.%s has no name in JSON", t, f.Name)
		}
		property := s.of(f.Type)
		property.Description = s.describe(t, f)
		to.add(name, property, !strings.Contains(options, "omit"))
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
			spec, isType := d.Specs[0].(*ast.TypeSpec)
			if !isType {
				return true
			}
			fields, isStruct := spec.Type.(*ast.StructType)
			if !isStruct {
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
		v, isValue := spec.(*ast.ValueSpec)
		if !isValue {
			continue
		}
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
		t: t, comments: map[string]string{}, values: map[string][]string{},
		defs: map[string]*schema{},
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
	err := encoder.Encode(schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", Title: "The documents of windlass status -o json",
		OneOf: []*schema{{Ref: refPrefix + "Report"}, {Ref: refPrefix + "Fleet"}}, Defs: s.defs,
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
		o := s.defs[name]
		fmt.Fprintf(&out, "\n### %s\n\n%s\n\n| Field | Type | Meaning |\n|---|---|---|\n", name, wrap(o.Description))
		last := ""
		for _, field := range o.order {
			property := o.Properties[field]
			kind, meaning := describeType(property), property.Description
			if !slices.Contains(o.Required, field) {
				kind += ", or left out"
			}
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

func describeType(property *schema) string {
	switch {
	case property.Ref != "":
		name := strings.TrimPrefix(property.Ref, refPrefix)
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case property.Items != nil:
		return "list of " + describeType(property.Items)
	case property.OneOf != nil:
		return "integer or string"
	case property.Format != "":
		return "time"
	case property.Properties != nil:
		return "a number for each state"
	}
	return property.Type
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
		if diff := gocmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is another one. Fix: WINDLASS_UPDATE=1 go test -run TestSchema ./internal/status (-want +got):\n%s", file, diff)
		}
	}
}
