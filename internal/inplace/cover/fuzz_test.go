package cover_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// FuzzApply gives New and Apply arbitrary bytes: nothing panics, nothing that was given is changed, the same input gives the
// same output, and what is refused covers nothing.
func FuzzApply(f *testing.F) {
	const current = `{"kind":"Machine","metadata":{"name":"m"},"spec":{"version":"v1.30.1","failureDomain":"a","l":[1,null,{"a":1}],"o":{"b":{}}}}`
	const desired = `{"kind":"Machine","metadata":{"name":"m"},"spec":{"version":"v1.31.0","l":[1,2],"o":{"b":{"c":null}}}}`
	for _, patch := range []string{
		`[{"op":"replace","path":"/spec/version","value":"v1.31.0"}]`,
		`[{"op":"copy","from":"/spec/o","path":"/spec/o/b/x"},{"op":"move","from":"/spec/l/0","path":"/spec/l/-"}]`,
		`[{"op":"test","path":"/spec/l","value":[1,2,3]},{"op":"remove","path":"/spec"}]`,
		`[{"op":"test","path":"","value":null},{"op":"add","path":"","value":[]},{"op":"add","path":"/spec//","value":1}]`,
		`null`, `[]`, `{}`,
	} {
		f.Add([]byte(current), []byte(desired), []byte(patch), true, "/spec/o")
	}
	f.Add([]byte(current), []byte(desired), []byte(`{"spec":{"version":"v1.31.0","failureDomain":null,"l":[1,2],"o":{"b":{"c":1}}}}`), false, "/spec/l/0")
	f.Add([]byte(`{"spec":1}`), []byte(`{"spec":null}`), []byte(`{"spec":null}`), false, "/spec/~2")
	f.Fuzz(func(t *testing.T, current, desired, patch []byte, jsonPatch bool, ignored string) {
		for _, scope := range []cover.Scope{cover.Machine, cover.MachineSet} {
			for _, part := range []cover.Part{cover.PartMachine, cover.PartInfrastructure} {
				fuzzOne(t, scope, part, [3][]byte{current, desired, patch}, jsonPatch, ignored)
			}
		}
	})
}

func fuzzOne(t *testing.T, scope cover.Scope, part cover.Part, input [3][]byte, isJSONPatch bool, ignored string) {
	t.Helper()
	given := [3][]byte{bytes.Clone(input[0]), bytes.Clone(input[1]), bytes.Clone(input[2])}
	current, desired := cover.Objects{Machine: input[0]}, cover.Objects{Machine: input[1]}
	patch := cover.Patch{Type: cover.JSONMergePatch, Data: input[2]}
	if isJSONPatch {
		patch.Type = cover.JSONPatch
	}
	patches := cover.Patches{Machine: patch}
	if part == cover.PartInfrastructure {
		current = cover.Objects{Machine: json.RawMessage(`{}`), Infrastructure: input[0]}
		desired = cover.Objects{Machine: json.RawMessage(`{}`), Infrastructure: input[1]}
		patches = cover.Patches{Infrastructure: patch}
	}
	c, err := cover.New(scope, current, desired, []cover.Ignore{{Part: part, Path: ignored}})
	if err != nil {
		c, err = cover.New(scope, current, desired, nil)
	}
	if err != nil {
		return
	}
	before := asJSON(t, c.Result())
	updater := cover.Updater{Name: "u", MaxMinors: 1}
	next, err := c.Apply(updater, patches)
	again, errAgain := c.Apply(updater, patches)
	if diff := cmp.Diff(asJSON(t, next.Result()), asJSON(t, again.Result())); diff != "" || (err == nil) != (errAgain == nil) {
		t.Errorf("the same input gives something else (-first +second):\n%s", diff)
	}
	if diff := cmp.Diff(next.Patches(), again.Patches()); diff != "" {
		t.Errorf("the same input gives other patches (-first +second):\n%s", diff)
	}
	if diff := cmp.Diff(before, asJSON(t, c.Result())); diff != "" {
		t.Errorf("Apply changes its receiver (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(given, input); diff != "" {
		t.Errorf("the input is changed (-before +after):\n%s", diff)
	}
	if r := next.Result(); err != nil && (len(r.Plan) != 0 || len(r.Errors) != 1) {
		t.Errorf("refused with %v, but the plan is %v", err, r.Plan)
	}
	if shown, err := cover.New(scope, next.Current(), desired, nil); err != nil {
		t.Errorf("the next updater cannot be shown what there is: %v", err)
	} else if got := shown.Result(); len(got.Errors) != 0 {
		t.Errorf("got errors %v", got.Errors)
	}
}
