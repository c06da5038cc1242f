package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// maxShown bounds how many problems an error names: enough to fix a file in one go, few enough to read.
const maxShown = 20

// Error says what is wrong with a file.
type Error struct {
	// File is what the caller calls the file; empty for none.
	File string
	// Problems is never empty and in the order of the file, as far as that is known. Each names a field and says what would be right.
	Problems []error
}

func (e *Error) Error() string {
	prefix := e.File
	if prefix == "" {
		prefix = "the scenario"
	}
	if len(e.Problems) == 1 {
		return prefix + ": " + e.Problems[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: there are %d problems", prefix, len(e.Problems))
	for i, p := range e.Problems {
		if i == maxShown {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Problems)-maxShown)
			break
		}
		b.WriteString("\n  " + p.Error())
	}
	return b.String()
}

// Unwrap returns the problems.
func (e *Error) Unwrap() error { return utilerrors.NewAggregate(e.Problems) }

// Parse reads a scenario of one YAML document; name is what errors call the file. A field that there is not is an error: a misspelt one would have
// the simulation answer another question. Values are checked by Translate. The error is an *Error.
func Parse(name string, data []byte) (File, error) {
	fail := func(problems ...error) (File, error) { return File{}, &Error{File: name, Problems: problems} }
	if bytes.Contains(data, []byte("\n---")) {
		return fail(errors.New("there is more than one document; a scenario is one"))
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
		text, _, _ = strings.Cut(strings.TrimSpace(strings.TrimPrefix(text, "yaml: unmarshal errors:\n")), "\n")
		return fail(fmt.Errorf("it is not valid YAML: %s", strings.TrimPrefix(strings.TrimSpace(text), "yaml: ")))
	}
	if !bytes.HasPrefix(asJSON, []byte("{")) {
		return fail(errors.New("it holds no fields; see docs/reference/scenario-file.md for those that there are"))
	}
	var f File
	strict, err := strictjson.UnmarshalStrict(asJSON, &f)
	if err != nil {
		return fail(describeMismatch(err))
	}
	problems := make([]error, 0, len(strict))
	for _, s := range strict {
		problems = append(problems, describeStrict(s))
	}
	if len(problems) > 0 {
		return fail(problems...)
	}
	return f, nil
}

// describeMismatch names the field whose value is of another type.
func describeMismatch(err error) error {
	mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok || mismatch.Field == "" {
		return fmt.Errorf("it cannot be decoded: %w", err)
	}
	text := fmt.Sprintf("it must be %s, not %s", describeType(mismatch.Type.String()), mismatch.Value)
	if mismatch.Type.String() == "string" && strings.HasPrefix(mismatch.Value, "number") {
		text += ". Fix: put it in quotes"
	}
	// The decoder names embedded structs, too.
	return fmt.Errorf("%s: %s", strings.ReplaceAll(mismatch.Field, ".Machines.", "."), text)
}

func describeType(name string) string {
	switch {
	case name == "string":
		return "text"
	case name == "bool":
		return "true or false"
	case strings.HasPrefix(name, "uint"), strings.HasPrefix(name, "int"):
		return "a whole number"
	case name == "float64":
		return "a number"
	case strings.HasPrefix(name, "[]"):
		return "a list"
	default:
		return "a group of fields"
	}
}

func describeStrict(err error) error {
	field, ok := errors.AsType[strictjson.FieldError](err)
	if !ok {
		return err
	}
	return fmt.Errorf("%s: there is no such field; see that it is spelt right, upper and lower case too, and stands where it belongs", field.FieldPath())
}

// Print writes a file as Parse reads it, fields in the order of the documentation. Notes go before it, each as a comment.
func Print(w io.Writer, f File, notes []string) error {
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encoding the scenario: %w", err)
	}
	// JSON is YAML, and a node keeps the order of its fields.
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(data, &document); err != nil {
		return fmt.Errorf("encoding the scenario: %w", err)
	}
	restyle(&document)
	var b bytes.Buffer
	for _, n := range notes {
		b.WriteString("# " + strings.ReplaceAll(n, "\n", "\n# ") + "\n")
	}
	encoder := yamlv3.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&document), encoder.Close()); err != nil {
		return fmt.Errorf("encoding the scenario: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// restyle writes lists and groups of fields line by line, and text without quotes where it needs none.
func restyle(n *yamlv3.Node) {
	if n.Kind != yamlv3.ScalarNode || bare.MatchString(n.Value) && !slices.Contains(reserved, strings.ToLower(n.Value)) {
		n.Style = 0
	}
	for _, child := range n.Content {
		restyle(child)
	}
}

// bare are texts that no parser takes for anything but text, except for the reserved words of YAML 1.1.
var (
	bare     = regexp.MustCompile(`^(v[0-9][-+.0-9A-Za-z]*|([0-9]+(h|m|s|ms))+|[A-Za-z][-A-Za-z0-9/]*)$`)
	reserved = []string{"y", "yes", "n", "no", "on", "off", "true", "false", "null"}
)
