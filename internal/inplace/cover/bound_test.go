package cover_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// TestDirtyIsBounded ignores large subtrees.
func TestDirtyIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", cover.MaxPath)
	many := func(prefix string, n int) map[string]any {
		fields := map[string]any{}
		for i := range n {
			fields[fmt.Sprintf("%s%04d", prefix, i)] = i
		}
		return fields
	}
	for name, test := range map[string]struct {
		ignored any
		want    []string
	}{
		"few": {map[string]any{"a": 1, "b": map[string]any{"c": 1}}, []string{"/spec/ignored/a", "/spec/ignored/b/c"}},
		"one level too many": {
			map[string]any{"a": many("f", 3*cover.MaxChanges), "b": map[string]any{"c": 1, "d": 1}},
			[]string{"/spec/ignored/a", "/spec/ignored/b/c", "/spec/ignored/b/d"},
		},
		"the deepest first": {
			map[string]any{"a": 1, "b": map[string]any{"c": many("f", cover.MaxChanges-1), "d": 1}},
			[]string{"/spec/ignored/a", "/spec/ignored/b/c", "/spec/ignored/b/d"},
		},
		"as many as there may be, in lists": {
			map[string]any{"a": slices.Repeat([]any{many("f", 2)}, cover.MaxChanges+1)}, []string{"/spec/ignored/a"},
		},
		"all over": {
			map[string]any{"a": many("f", cover.MaxChanges), "b": many("f", cover.MaxChanges), "~/": 1},
			[]string{"/spec/ignored/a", "/spec/ignored/b", "/spec/ignored/~0~1"},
		},
		"a long path": {map[string]any{"a": map[string]any{long: 1, "b": 1}, "c": 1}, []string{"/spec/ignored/a", "/spec/ignored/c"}},
		"many bytes": {
			map[string]any{"a": many(long[:cover.MaxPath/2], 100), "b": 1}, []string{"/spec/ignored/a", "/spec/ignored/b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desired, err := json.Marshal(map[string]any{"spec": map[string]any{"ignored": test.ignored}})
			if err != nil {
				t.Fatal(err)
			}
			r := infrastructure(t, `{"spec":{}}`, string(desired), "/spec/ignored").Result()
			var got []string
			for _, p := range r.Dirty {
				got = append(got, p.Path)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("dirty (-want +got):\n%s", diff)
			}
			if len(r.Uncovered)+len(r.Changes) > 0 {
				t.Errorf("%d fields are uncovered, %d changed", len(r.Uncovered), len(r.Changes))
			}
		})
	}
}

// Whatever is dirty, the bounds hold, and each field is named, by itself or by one above it.
func TestBoundPointers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.SampledFrom([]string{"a", "b", "a-b", "~0", "0", strings.Repeat("long", 40)})
		pointer := rapid.Custom(func(t *rapid.T) cover.Pointer {
			return cover.Pointer{
				Part: rapid.SampledFrom([]cover.Part{cover.PartMachine, cover.PartInfrastructure, cover.PartBootstrap}).Draw(t, "part"),
				Path: "/spec/" + strings.Join(rapid.SliceOfN(token, 1, 6).Draw(t, "tokens"), "/"),
			}
		})
		list := rapid.SliceOfN(pointer, 0, 3*cover.MaxChanges).Draw(t, "pointers")
		before := slices.Clone(list)
		got := cover.BoundPointers(list)
		if !slices.Equal(list, before) {
			t.Fatal("the input was changed")
		}
		bytes := 0
		for _, p := range got {
			bytes += len(p.Path)
			if len(p.Path) > cover.MaxPath || !strings.HasPrefix(p.Path, "/spec") {
				t.Fatalf("%q is too long, or no field", p.Path)
			}
		}
		if len(got) > cover.MaxChanges || bytes > cover.MaxPaths {
			t.Fatalf("%d pointers of %d bytes", len(got), bytes)
		}
		for _, p := range list {
			if !slices.ContainsFunc(got, func(q cover.Pointer) bool { return p.Part == q.Part && strings.HasPrefix(p.Path+"/", q.Path+"/") }) {
				t.Fatalf("%v is lost: %v", p, got)
			}
		}
		if again := cover.BoundPointers(got); !slices.Equal(again, got) {
			t.Fatalf("bounding again changes %v to %v", got, again)
		}
	})
}

func TestChangesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	spec := map[string]int{"short": 1, strings.Repeat("x", cover.MaxPath): 1}
	for i := range cover.MaxChanges / 2 {
		spec[fmt.Sprintf("a%03d%s", i, strings.Repeat("y", cover.MaxPath/2))] = 1
	}
	desired, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	bytes := 0
	r := infrastructure(t, `{"spec":{}}`, string(desired)).Result()
	for _, c := range r.Changes {
		bytes += len(c.Path)
		if len(c.Path) > cover.MaxPath {
			t.Errorf("a path has %d bytes", len(c.Path))
		}
	}
	if bytes > cover.MaxPaths || bytes < cover.MaxPaths-cover.MaxPath {
		t.Errorf("the paths have %d bytes", bytes)
	}
	if len(r.Uncovered) != len(spec) {
		t.Errorf("%d fields are uncovered, want %d: what is not recorded still has to be covered", len(r.Uncovered), len(spec))
	}
}
