package untrusted_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/untrusted"
)

// trees are JSON values that exceed some limits of roomy.
func trees(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 5
		if depth > 0 {
			kinds = 7
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return json.Number(rapid.StringMatching(`-?(0|[1-9][0-9]{0,3})`).Draw(t, "number"))
		case 3, 4:
			return rapid.StringOfN(rapid.RuneFrom([]rune("ab\"\\[]{},: \n<é*&!#-y1")), 0, 6, -1).Draw(t, "string")
		case 5:
			return rapid.SliceOfN(trees(depth-1), 0, 4).Draw(t, "list")
		default:
			return rapid.MapOfN(rapid.StringMatching(`[ab":{\\y1]{0,3}`), trees(depth-1), 0, 4).Draw(t, "object")
		}
	})
}

// measure counts values and levels.
func measure(tree any) (nodes, depth int) {
	nodes = 1
	var children []any
	switch tree := tree.(type) {
	case []any:
		children, depth = tree, 1
	case map[string]any:
		depth = 1
		for _, child := range tree {
			children = append(children, child)
		}
	}
	for _, child := range children {
		n, d := measure(child)
		nodes, depth = nodes+n, max(depth, d+1)
	}
	return nodes, depth
}

// TestAgreesWithJSON: a value is accepted if and only if it is within the limits, and then is what
// encoding/json and sigs.k8s.io/yaml make of the same text.
func TestAgreesWithJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tree := trees(4).Draw(t, "tree")
		data, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		nodes, depth := measure(tree)
		l := untrusted.Limits{Bytes: len(data), Nodes: nodes, Depth: depth}
		checkAgreement(t, l, data)
		for _, tight := range []untrusted.Limits{
			{Bytes: l.Bytes - 1, Nodes: nodes, Depth: depth},
			{Bytes: l.Bytes, Nodes: nodes - 1, Depth: depth},
			{Bytes: l.Bytes, Nodes: nodes, Depth: depth - 1},
		} {
			if tight.Depth < 0 {
				continue
			}
			_, treeErr := tight.Tree(data)
			_, yamlErr := tight.YAMLToJSON(data)
			for _, err := range []error{treeErr, yamlErr, tight.Check(data)} {
				if _, ok := errors.AsType[*untrusted.LimitError](err); !ok {
					t.Fatalf("%s within %+v: %v", data, tight, err)
				}
			}
		}
	})
}

type failer interface{ Fatalf(string, ...any) }

// checkAgreement compares what is accepted of a text.
func checkAgreement(t failer, l untrusted.Limits, data []byte) {
	tree, err := l.Tree(data)
	if err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	var want any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&want); err != nil || !reflect.DeepEqual(tree, want) {
		t.Fatalf("%q: %v, want %v, %v", data, tree, want, err)
	}
	var typed, wantTyped any
	if err, wantErr := l.Unmarshal(data, &typed), json.Unmarshal(data, &wantTyped); err != nil || wantErr != nil || !reflect.DeepEqual(typed, wantTyped) {
		t.Fatalf("%q: %v, %v, want %v, %v", data, typed, err, wantTyped, wantErr)
	}
	checkYAML(t, l, data)
}

func checkYAML(t failer, l untrusted.Limits, data []byte) {
	converted, err := l.YAMLToJSON(data)
	want, wantErr := yaml.YAMLToJSON(data)
	switch {
	case err == nil && (wantErr != nil || !bytes.Equal(converted, want)):
		t.Fatalf("%q: %s, want %s, %v", data, converted, want, wantErr)
	case err != nil && wantErr == nil && json.Valid(data):
		_, limited := errors.AsType[*untrusted.LimitError](err)
		if strict, _ := yaml.YAMLToJSONStrict(data); !limited && strict != nil {
			t.Fatalf("%q: %v, want %s", data, err, want)
		}
	}
}

// FuzzParse looks for panics, and for text that is accepted and read in another way than by
// encoding/json and sigs.k8s.io/yaml, or whose value exceeds the limits.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,"b",null]}`, "a: &x [1]\nb: *x\n", "<<: {a: 1}\nb: 2", "a: 1\n---\nb: 2", "? a\n: b", "- |\n  x\n- >\n  y",
		"a: &a [1,1,1]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]", strings.Repeat("[", 40), "%YAML 1.1\n---\n!!map {a: !!binary aGk=}", "a: 2020-01-01\n",
		"1: 1\n\"1\": 2\n", "on: 1\n\"true\": 1",
	} {
		f.Add([]byte(seed))
	}
	l := untrusted.Limits{Bytes: 4 << 10, Depth: 16, Nodes: 200}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := l.Tree(data); err == nil {
			checkAgreement(t, l, data)
		}
		checkYAML(t, l, data)
		converted, err := l.YAMLToJSON(data)
		if err != nil {
			return
		}
		tree, err := untrusted.Object.Tree(converted)
		if err != nil {
			t.Fatal(err)
		}
		if nodes, depth := measure(tree); nodes > l.Nodes || depth > l.Depth {
			t.Fatalf("%q: %d values, %d levels", data, nodes, depth)
		}
	})
}
