package untrusted

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

var (
	errYAML      = &SyntaxError{Problem: "it is not valid YAML"}
	errTrailing  = &SyntaxError{Problem: "a second YAML document follows. Fix: write one document"}
	errRecursive = &SyntaxError{Problem: "a YAML alias is part of the value that it names"}
	errKey       = &SyntaxError{Problem: "a key is not a string. Fix: put it in quotes"}
)

// YAMLToJSON returns one YAML document as JSON, as sigs.k8s.io/yaml and thereby kubectl and kubeadm
// read it. Text without a document is null. It refuses equal keys in one object, keys that are not
// strings, a second document, and an alias in the value that it names. Errors have none of the
// input's text.
//
// The limits hold for the document with all aliases expanded, and for the result.
func (l Limits) YAMLToJSON(data []byte) ([]byte, error) {
	if len(data) > l.Bytes {
		return nil, &LimitError{Kind: Bytes, Max: l.Bytes}
	}
	decoder := yamlv3.NewDecoder(&checkedReader{data: bytes.NewReader(data), limits: l})
	var document yamlv3.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return []byte("null"), nil
	case err != nil:
		return nil, l.syntax(errYAML)
	}
	m := measurer{limits: l, known: map[*yamlv3.Node]*size{}}
	if _, err := m.measure(&document, 0); err != nil {
		return nil, err
	}
	if err := decoder.Decode(new(yamlv3.Node)); !errors.Is(err, io.EOF) {
		return nil, l.syntax(errTrailing)
	}
	converted, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, l.syntax(errYAML)
	}
	// JSON may write a byte of a string as six, and adds quotes, colon, comma and null to a key.
	const escaped, added = 6, 8
	l.Bytes = escaped*l.Bytes + added*(l.Nodes+1)
	return converted, l.Check(converted)
}

// UnmarshalYAML does with one YAML document, as YAMLToJSON returns it, what json.Unmarshal does.
func (l Limits) UnmarshalYAML(data []byte, into any) error {
	converted, err := l.YAMLToJSON(data)
	if err != nil {
		return err
	}
	return json.Unmarshal(converted, into)
}

// UnmarshalYAMLStrict is UnmarshalYAML, but names of fields are case-sensitive, and a field that into
// does not have is an error that names it.
func (l Limits) UnmarshalYAMLStrict(data []byte, into any) error {
	converted, err := l.YAMLToJSON(data)
	if err != nil {
		return err
	}
	unknown, err := strictjson.UnmarshalStrict(converted, into)
	if err == nil && len(unknown) > 0 {
		err = unknown[0]
	}
	return err
}

// syntax returns why the parse was canceled, or err.
func (l Limits) syntax(err error) error {
	if canceled := l.canceled(); canceled != nil {
		return canceled
	}
	return err
}

// checkedReader ends when the parse is canceled.
type checkedReader struct {
	data   io.Reader
	limits Limits
}

func (r *checkedReader) Read(p []byte) (int, error) {
	if err := r.limits.canceled(); err != nil {
		return 0, err
	}
	return r.data.Read(p)
}

// size is what a YAML value needs with all aliases expanded.
type size struct{ bytes, nodes, depth int }

// measurer measures YAML. It visits each node once, however often aliases name it.
type measurer struct {
	limits Limits
	// known are the sizes of the values that aliases can name. That of a value which is being
	// measured is nil.
	known map[*yamlv3.Node]*size
}

// measure returns the size of a value below so many levels. The error is a *LimitError as soon as the
// value exceeds a limit, so that no sum overflows.
func (m *measurer) measure(node *yamlv3.Node, above int) (size, error) {
	if node.Kind == yamlv3.AliasNode {
		named := m.known[node.Alias]
		if named == nil {
			return size{}, errRecursive
		}
		return *named, m.check(*named, above)
	}
	total := size{bytes: len(node.Value)}
	if node.Kind != yamlv3.DocumentNode {
		total.nodes = 1
	}
	if node.Kind == yamlv3.MappingNode || node.Kind == yamlv3.SequenceNode {
		total.depth = 1
	}
	if err := m.measureChildren(node, above, &total); err != nil {
		return size{}, err
	}
	if node.Anchor != "" {
		m.known[node] = &total
	}
	return total, m.check(total, above)
}

// measureChildren adds what is in a value to its size.
func (m *measurer) measureChildren(node *yamlv3.Node, above int, total *size) error {
	inner := total.depth
	for i, child := range node.Content {
		if err := m.check(*total, above); err != nil {
			return err
		}
		isKey := node.Kind == yamlv3.MappingNode && i%2 == 0
		if isKey && !isString(child) {
			return errKey
		}
		part, err := m.measure(child, above+inner)
		if err != nil {
			return err
		}
		total.bytes += part.bytes
		if !isKey {
			total.nodes += part.nodes
		}
		total.depth = max(total.depth, inner+part.depth)
	}
	return nil
}

// booleans are the words, in lower case, that YAML 1.1 and thereby sigs.k8s.io/yaml read as booleans,
// and YAML 1.2 as strings.
var booleans = []string{"y", "yes", "on", "n", "no", "off"}

// isString reports whether a key is a string in YAML 1.1 and 1.2. JSON has no other keys:
// sigs.k8s.io/yaml writes 1 and "1" as the same key, and which of two values counts is then random.
func isString(key *yamlv3.Node) bool {
	if key.Kind != yamlv3.ScalarNode {
		return false
	}
	switch key.ShortTag() {
	case "!!merge":
		return true
	case "!!str":
		return key.Style != 0 || !slices.Contains(booleans, strings.ToLower(key.Value))
	default:
		return false
	}
}

func (m *measurer) check(s size, above int) error {
	switch {
	case s.bytes > m.limits.Bytes:
		return &LimitError{Kind: Bytes, Max: m.limits.Bytes}
	case s.nodes > m.limits.Nodes:
		return &LimitError{Kind: Nodes, Max: m.limits.Nodes}
	case above+s.depth > m.limits.Depth:
		return &LimitError{Kind: Depth, Max: m.limits.Depth}
	}
	return nil
}
