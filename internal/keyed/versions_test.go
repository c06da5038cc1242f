package keyed_test

import (
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/windlass-dev/windlass/internal/keyed"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	var kept keyed.Versions[string]
	var computed []string
	ask := func(v *keyed.Versions[string], scope string, versions ...keyed.Version) []string {
		computed = nil
		return v.Compute(scope, len(versions), func(i int) (string, keyed.Version) {
			return "object-" + versions[i].UID, versions[i]
		}, func(i int) string {
			computed = append(computed, versions[i].UID)
			return versions[i].UID + "@" + versions[i].ResourceVersion
		})
	}
	a1, a2 := keyed.Version{UID: "a", ResourceVersion: "1", Generation: 1}, keyed.Version{UID: "a", ResourceVersion: "2", Generation: 2}
	b, file := keyed.Version{UID: "b", ResourceVersion: "1"}, keyed.Version{UID: "f"}
	// An etcd that was restored repeats a resource version for another content.
	restored := keyed.Version{UID: "a", ResourceVersion: "1", Generation: 3}
	for _, step := range []struct {
		name     string
		v        *keyed.Versions[string]
		scope    string
		versions []keyed.Version
		computed []string
	}{
		{"at first", &kept, "ns", []keyed.Version{a1, b}, []string{"a", "b"}},
		{"unchanged", &kept, "ns", []keyed.Version{b, a1}, nil},
		{"another scope", &kept, "other", []keyed.Version{b}, []string{"b"}},
		{"one changed", &kept, "ns", []keyed.Version{a2, b}, []string{"a"}},
		{"one is gone", &kept, "ns", []keyed.Version{a2}, nil},
		{"it is back", &kept, "ns", []keyed.Version{a2, b}, []string{"b"}},
		{"all are gone", &kept, "ns", nil, nil},
		{"and back", &kept, "ns", []keyed.Version{a1}, []string{"a"}},
		{"restored", &kept, "ns", []keyed.Version{restored}, []string{"a"}},
		{"from a file", &kept, "ns", []keyed.Version{file}, []string{"f"}},
		{"from the file again", &kept, "ns", []keyed.Version{file}, []string{"f"}},
		{"nothing is kept", nil, "ns", []keyed.Version{a1, b}, []string{"a", "b"}},
	} {
		got := ask(step.v, step.scope, step.versions...)
		var want []string
		for _, v := range step.versions {
			want = append(want, v.UID+"@"+v.ResourceVersion)
		}
		if !slices.Equal(got, want) || !slices.Equal(computed, step.computed) {
			t.Errorf("%s: got %q, computed %q, want %q, computed %q", step.name, got, computed, want, step.computed)
		}
	}
}

// TestScopesAreDropped holds that what was computed for a scope is not kept once nobody asks about the
// scope, and that many scopes are kept that are asked about in turn.
func TestScopesAreDropped(t *testing.T) {
	t.Parallel()
	var kept keyed.Versions[*[]byte]
	computed := 0
	ask := func(scope string) *[]byte {
		return kept.Compute(scope, 1, func(int) (string, keyed.Version) {
			return "p", keyed.Version{UID: "u", ResourceVersion: "1"}
		}, func(int) *[]byte { computed++; return new([]byte) })[0]
	}
	gone, live := weak.Make(ask("gone")), 2000
	for range 25 {
		for i := range live {
			ask(strconv.Itoa(i))
		}
	}
	if want := 1 + live; computed != want {
		t.Errorf("computed %d values, want each of %d once", computed, want)
	}
	runtime.GC()
	if gone.Value() != nil {
		t.Errorf("the value of a scope is kept after %d calls about others", 25*live)
	}
	runtime.KeepAlive(&kept)
}

func TestVersionsAtOnce(t *testing.T) {
	t.Parallel()
	var kept keyed.Versions[int]
	var computed atomic.Int32
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			kept.Compute("ns", 10, func(i int) (string, keyed.Version) {
				name := string(rune('a' + i))
				return name, keyed.Version{UID: name, ResourceVersion: "1"}
			}, func(i int) int { computed.Add(1); return i })
		})
	}
	all.Wait()
	if n := computed.Load(); n != 10 {
		t.Errorf("16 callers at once computed %d values, want each of 10 once", n)
	}
}

// TestScopesDoNotWait holds that values of one scope are computed while another scope still computes.
// With one lock for all scopes the inner call never returns.
func TestScopesDoNotWait(t *testing.T) {
	t.Parallel()
	var kept keyed.Versions[int]
	describe := func(int) (string, keyed.Version) { return "p", keyed.Version{UID: "u", ResourceVersion: "1"} }
	done := make(chan []int, 1)
	go func() {
		done <- kept.Compute("slow", 1, describe, func(int) int {
			return 1 + kept.Compute("other", 1, describe, func(int) int { return 1 })[0]
		})
	}()
	select {
	case got := <-done:
		if got[0] != 2 {
			t.Errorf("computed %d, want 2", got[0])
		}
	case <-time.After(time.Minute):
		t.Fatal("a scope waits for another one")
	}
}

// TestVersionIs holds that an object is the same only where all of its version is, and that a
// version that could be that of any content is never the same.
func TestVersionIs(t *testing.T) {
	t.Parallel()
	a := keyed.Version{UID: "a", ResourceVersion: "1", Generation: 1}
	for name, tt := range map[string]struct {
		b    keyed.Version
		same bool
	}{
		"itself":                   {a, true},
		"another object":           {keyed.Version{UID: "b", ResourceVersion: "1", Generation: 1}, false},
		"the generation, restored": {keyed.Version{UID: "a", ResourceVersion: "2", Generation: 1}, false},
		"the version, restored":    {keyed.Version{UID: "a", ResourceVersion: "1", Generation: 2}, false},
		"none":                     {keyed.Version{}, false},
	} {
		if got := a.Is(tt.b); got != tt.same {
			t.Errorf("%s: the same: %t, want %t", name, got, tt.same)
		}
	}
	for _, unknown := range []keyed.Version{{}, {UID: "a"}, {ResourceVersion: "1"}} {
		if unknown.Is(unknown) {
			t.Errorf("%+v is the version of any content", unknown)
		}
	}
}
