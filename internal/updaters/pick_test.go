package updaters_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/updaters"
)

// anyValue draws JSON without null, which merge patches cannot set.
func anyValue(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(rapid.Just[any]("a"), rapid.Just[any]("b"), rapid.Just[any](true), rapid.Just[any](float64(3)))
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(
		leaf,
		rapid.Map(rapid.SliceOfN(anyValue(depth-1), 0, 3), func(l []any) any { return l }),
		rapid.Map(anyFields(depth-1), func(m map[string]any) any { return m }),
	)
}

func anyFields(depth int) *rapid.Generator[map[string]any] {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c/d", "e~f"}), anyValue(depth), 0, 3)
}

func encode(t *rapid.T, spec map[string]any, scope cover.Scope) json.RawMessage {
	whole := map[string]any{"apiVersion": "v1", "kind": "K", "metadata": map[string]any{"name": "n"}, "spec": spec}
	if scope == cover.MachineSet {
		whole["spec"] = map[string]any{"template": map[string]any{"spec": spec}, "replicas": 3}
	}
	content, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestPatchesCoverTheWholeDifference patches everything that differs, or a part of it: what was picked is covered, and nothing
// but that changes.
func TestPatchesCoverTheWholeDifference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		scope := rapid.SampledFrom([]cover.Scope{cover.Machine, cover.MachineSet}).Draw(t, "scope")
		draw := func(label string) cover.Objects {
			return cover.Objects{
				Machine:        encode(t, anyFields(3).Draw(t, label+" machine"), scope),
				Infrastructure: encode(t, anyFields(3).Draw(t, label+" infrastructure"), scope),
			}
		}
		current, desired := draw("current"), draw("desired")
		coverage, err := cover.New(scope, current, desired, nil)
		if err != nil {
			t.Fatal(err)
		}
		var pointers []cover.Pointer
		for _, p := range coverage.Result().Uncovered {
			if scope == cover.MachineSet {
				p.Path = strings.TrimPrefix(p.Path, "/spec/template")
			}
			if rapid.Bool().Draw(t, "pick") {
				pointers = append(pointers, p)
			}
		}
		all := len(pointers) == len(coverage.Result().Uncovered)
		patches, err := updaters.Patches(pointers, scope, current, desired)
		if err != nil {
			t.Fatal(err)
		}
		after, err := coverage.Apply(cover.Updater{Name: "u"}, patches)
		if err != nil {
			t.Fatalf("the patches are wrong: %v", err)
		}
		left := after.Result().Uncovered
		if all && len(left) > 0 {
			t.Fatalf("left are %v", left)
		}
		for _, p := range left {
			if scope == cover.MachineSet {
				p.Path = strings.TrimPrefix(p.Path, "/spec/template")
			}
			for _, picked := range pointers {
				if p == picked {
					t.Fatalf("%v was picked and is left", p)
				}
			}
		}
	})
}

func TestFieldsRefuses(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/", "/spec", "/spec/", "spec/a", "/status/a", "/spec/a//b", "/spec/a/"} {
		if fields, err := updaters.Fields(path, cover.Machine); err == nil {
			t.Errorf("%q gives %v", path, fields)
		}
	}
}

func TestPatchesOfBadObjects(t *testing.T) {
	t.Parallel()
	good := cover.Objects{Machine: json.RawMessage(`{"spec":{"a":1}}`)}
	pointers := []cover.Pointer{{Part: cover.PartMachine, Path: "/spec/a"}}
	for _, bad := range []string{"[]", "1", "{", `"a"`} {
		if patches, err := updaters.Patches(pointers, cover.Machine, cover.Objects{Machine: json.RawMessage(bad)}, good); err == nil {
			t.Errorf("current %s gives %+v", bad, patches)
		}
	}
	// An object that is on one side only is left alone.
	patches, err := updaters.Patches([]cover.Pointer{{Part: cover.PartBootstrap, Path: "/spec/a"}}, cover.Machine, good, good)
	if err != nil || patches.Bootstrap.Data != nil {
		t.Errorf("a missing bootstrap config gives %+v, %v", patches, err)
	}
}
