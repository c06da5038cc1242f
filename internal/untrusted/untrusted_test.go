package untrusted_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/untrusted"
)

// limits are small, so that tables can exceed them.
var limits = untrusted.Limits{Bytes: 64, Depth: 3, Nodes: 8}

const (
	tooLong = "it has more than 64 bytes. Fix: make it smaller"
	tooDeep = "it nests deeper than 3 levels. Fix: make it flatter"
	tooMany = "it has more than 8 values. Fix: make it smaller"
)

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestTree(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		data string
		want any
		err  string
	}{
		"digits are kept":     {`{"a":12345678901234567890.10}`, map[string]any{"a": json.Number("12345678901234567890.10")}, ""},
		"the last key counts": {`{"a":1,"a":"b"}`, map[string]any{"a": "b"}, ""},
		"null":                {` null `, nil, ""},
		"empty":               {" ", nil, "it is empty"},
		"trailing":            {"{} {}", nil, "something follows the JSON value"},
		"cut off":             {`{"a":`, nil, "unexpected EOF"},
		"as long as allowed":  {`"` + strings.Repeat("x", 62) + `"`, strings.Repeat("x", 62), ""},
		"longer":              {`"` + strings.Repeat("x", 63) + `"`, nil, tooLong},
		"as deep as allowed":  {`[[[]]]`, []any{[]any{[]any{}}}, ""},
		"deeper":              {`[[{"a":[]}]]`, nil, tooDeep},
		"as many as allowed":  {`{"a":[1,true,"x"],"b":{},"c":null}`, map[string]any{"a": []any{json.Number("1"), true, "x"}, "b": map[string]any{}, "c": nil}, ""},
		"more":                {`{"a":[1,true,"x"],"b":{},"c":[null,null]}`, nil, tooMany},
		"text counts nothing": {`"[[[[,,,,,,,,,\"[[[[{{{{::::"`, `[[[[,,,,,,,,,"[[[[{{{{::::`, ""},
	} {
		got, err := limits.Tree([]byte(tt.data))
		if diff := cmp.Diff(tt.want, got); diff != "" || errorText(err) != tt.err {
			t.Errorf("%s: error %v, want %q; value (-want +got):\n%s", name, err, tt.err, diff)
		}
	}
}

// What exceeds a limit changes nothing.
func TestUnmarshal(t *testing.T) {
	t.Parallel()
	into := map[string]int{"before": 1}
	for data, kind := range map[string]untrusted.Kind{
		`{"a":1}` + strings.Repeat(" ", 64): untrusted.Bytes,
		`{"a":[[[]]]}`:                      untrusted.Depth,
		`{"a":[0,0,0,0,0,0,0]}`:             untrusted.Nodes,
	} {
		err := limits.Unmarshal([]byte(data), &into)
		limit, ok := errors.AsType[*untrusted.LimitError](err)
		if !ok || limit.Kind != kind {
			t.Errorf("%s: %v, want the limit of %s", data, err, kind)
		}
	}
	if err := limits.Unmarshal([]byte(`{"a":1} x`), &into); err == nil {
		t.Error("trailing text is accepted")
	}
	if err := limits.Unmarshal([]byte(`{"a":1}`), &into); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]int{"before": 1, "a": 1}, into); diff != "" {
		t.Error(diff)
	}
	if err := (untrusted.Limits{}).Unmarshal([]byte("1"), new(any)); err == nil {
		t.Error("limits of 0 accept a value")
	}
}

func TestYAMLToJSON(t *testing.T) {
	t.Parallel()
	const invalid, second = "it is not valid YAML", "a second YAML document follows. Fix: write one document"
	const key, recursive = "a key is not a string. Fix: put it in quotes", "a YAML alias is part of the value that it names"
	for name, tt := range map[string]struct{ data, want, err string }{
		"an object":                 {"a: yes\nb: [1, 0x10, ~]\n", `{"a":true,"b":[1,16,null]}`, ""},
		"JSON":                      {`{"a": {"b": "c"}}`, `{"a":{"b":"c"}}`, ""},
		"nothing":                   {"# a comment\n", `null`, ""},
		"an end":                    {"---\na: 1\n...\n", `{"a":1}`, ""},
		"an alias":                  {"a: &x [1]\nb: *x\n", `{"a":[1],"b":[1]}`, ""},
		"a merge":                   {"a: &x {b: 1}\nc:\n  <<: *x\n  d: 2\n", `{"a":{"b":1},"c":{"b":1,"d":2}}`, ""},
		"a second document":         {"a: 1\n---\nb: 2\n", "", second},
		"what is no document":       {"a: 1\n---\n\"", "", invalid},
		"equal keys":                {"a: 1\n\"a\": 2\n", "", invalid},
		"keys of two types":         {"1: 1\n\"1\": 2\n", "", key},
		"keys of YAML 1.1":          {"On: 1\n\"true\": 2\n", "", key},
		"the same in quotes":        {"\"On\": 1\n\"true\": 2\n", `{"On":1,"true":2}`, ""},
		"an object as a key":        {"{a: 1}: 2\n", "", key},
		"a key that is an alias":    {"a: &x b\n*x : 2\n", "", key},
		"a null as a key":           {"~: 1\n", "", key},
		"an alias in itself":        {"a: &x [*x]\n", "", recursive},
		"an unknown alias":          {"a: *secret\n", "", invalid},
		"no YAML":                   {"a: [secret", "", invalid},
		"a value of another tag":    {"a: !!int secret\n", "", invalid},
		"a number that is no JSON":  {"a: .inf\n", "", invalid},
		"as deep as allowed":        {"[[[1]]]", `[[[1]]]`, ""},
		"deeper":                    {"[[[[]]]]", "", tooDeep},
		"deeper through an alias":   {"[&x [[1]], [*x]]", "", tooDeep},
		"as many as allowed":        {"[&x [1, 2], *x, 3]", `[[1,2],[1,2],3]`, ""},
		"more through an alias":     {"[&x [1, 2], *x, *x]", "", tooMany},
		"exponentially many":        {"a: &a [1,1,1]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\nd: [*c,*c,*c]", "", tooMany},
		"longer":                    {strings.Repeat("x", 65), "", tooLong},
		"longer through an alias":   {"[&x " + strings.Repeat("x", 30) + ", *x, *x]", "", tooLong},
		"what JSON writes in 6":     {`"` + strings.Repeat("<", 60) + `"`, `"` + strings.Repeat(`\u003c`, 60) + `"`, ""},
		"what JSON adds to a key":   {"{a, b, c, d, e, f, g}", `{"a":null,"b":null,"c":null,"d":null,"e":null,"f":null,"g":null}`, ""},
		"an alias to a later value": {"a: *x\nb: &x 1\n", "", invalid},
	} {
		got, err := limits.YAMLToJSON([]byte(tt.data))
		if errorText(err) != tt.err || err == nil && string(got) != tt.want {
			t.Errorf("%s: %s, %v, want %s, %s", name, got, err, tt.want, tt.err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error has text of the input: %v", name, err)
		}
	}
}

// A Scanner counts the same, wherever pieces end.
func TestScanner(t *testing.T) {
	t.Parallel()
	text := `{"a\"[":[1.5e3,true ,"x,y"],"b":{},"\\":null}`
	for size := range len(text) {
		s := untrusted.NewScanner(untrusted.Object)
		for rest := text; rest != ""; {
			n := min(len(rest), size+1)
			if err := s.Scan([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if s.Nodes() != 7 {
			t.Errorf("in pieces of %d bytes: %d values, want 7", size+1, s.Nodes())
		}
	}
}

// Objects and entries have limits of their own.
func TestObjectsAndEntries(t *testing.T) {
	t.Parallel()
	l := untrusted.Limits{Bytes: 64, Depth: 4, Nodes: 16, Objects: 3, Entries: 3}
	for data, want := range map[string]string{
		`[{"a":1,"b":2,"c":3},{},[1,2,3]]`: "",
		`[{"a":1,"b":2,"c":3,"d":4}]`:      "it has more than 3 entries in one list or object. Fix: make it smaller",
		`[[1,2,3],[4,5,6],[],7]`:           "it has more than 3 entries in one list or object. Fix: make it smaller",
		`[{},{"a":{}},{}]`:                 "it has more than 3 objects. Fix: make it smaller",
	} {
		if err := l.Check([]byte(data)); errorText(err) != want {
			t.Errorf("%s: %v, want %q", data, err, want)
		}
	}
}

// TestUnmarshalYAML: names of fields count exactly only in the strict form, which refuses others.
func TestUnmarshalYAML(t *testing.T) {
	t.Parallel()
	type value struct {
		Size int `json:"size"`
	}
	for name, tt := range map[string]struct {
		yaml        string
		want        value
		lenient     bool
		strict      bool
		strictError string
	}{
		"a value":          {yaml: "size: 3", want: value{3}, lenient: true, strict: true},
		"no document":      {yaml: "# none", lenient: true, strict: true},
		"a field too many": {yaml: "size: 3\nbig: 1", want: value{3}, lenient: true, strictError: `unknown field "big"`},
		"another case":     {yaml: "Size: 3", want: value{3}, lenient: true, strictError: `unknown field "Size"`},
		"another type":     {yaml: "size: x", strictError: "cannot unmarshal"},
		"no YAML":          {yaml: "{", strictError: "it is not valid YAML"},
	} {
		var lenient, strict value
		if err := untrusted.Object.UnmarshalYAML([]byte(tt.yaml), &lenient); (err == nil) != tt.lenient || lenient != tt.want {
			t.Errorf("%s: %+v, %v", name, lenient, err)
		}
		err := untrusted.Object.UnmarshalYAMLStrict([]byte(tt.yaml), &strict)
		if (err == nil) != tt.strict || tt.strict && strict != tt.want ||
			err != nil && !strings.Contains(err.Error(), tt.strictError) {
			t.Errorf("%s, strictly: %+v, %v", name, strict, err)
		}
	}
}

// A parse ends soon after it was canceled, and does not decode.
func TestCanceled(t *testing.T) {
	t.Parallel()
	long := untrusted.Limits{Bytes: 16 << 20, Depth: 4, Nodes: 16 << 20}
	list := []byte("[" + strings.Repeat("1,", 1<<20) + "1]")
	for name, parse := range map[string]func(untrusted.Limits) error{
		"Unmarshal":  func(l untrusted.Limits) error { return l.Unmarshal(list, new([]int)) },
		"Tree":       func(l untrusted.Limits) error { _, err := l.Tree(list); return err },
		"YAMLToJSON": func(l untrusted.Limits) error { _, err := l.YAMLToJSON(list); return err },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		l := long.Until(ctx)
		canceled := l.Canceled
		l.Canceled = func() error {
			if calls++; calls == 3 {
				cancel()
			}
			return canceled()
		}
		if err := parse(l); !errors.Is(err, context.Canceled) || calls > 4 {
			t.Errorf("%s: %v after %d calls, want that it ends with the third", name, err, calls)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := long.Until(ended).Unmarshal([]byte("1"), new(any)); !errors.Is(err, context.Canceled) {
		t.Errorf("a short text, after the end: %v", err)
	}
}

// What is refused costs nothing that grows with it.
func TestRefusalsAllocateLittle(t *testing.T) {
	// Not parallel: it counts allocations, with those of the runtime.
	for name, text := range map[string]string{
		"many values": "[" + strings.Repeat("1,", 1<<20) + "1]",
		"deep":        strings.Repeat(`{"a":`, 1<<18),
		"objects":     "[" + strings.Repeat("{},", 1<<19) + "{}]",
	} {
		data := []byte(text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := untrusted.Object.Tree(data)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: it is accepted", name)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 64<<10 {
			t.Errorf("%s: refusing %d bytes allocates %d bytes", name, len(data), got)
		}
	}
}
