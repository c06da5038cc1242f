package guard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/guard"
)

// member is a Machine of a control plane: whether it has the change, and whether a person lets it be replaced.
type member struct{ done, replaceable bool }

// rollout is what Cluster API's rollingUpdate and scaling do to a guarded control plane, all of whose changes an updater covers.
type rollout struct{ replicas, maxSurge int }

// next returns the states that can follow: one for each Machine that may be chosen. None follow if the guard refuses all.
func (r rollout) next(members []member) [][]member {
	ask := func(operation guard.Operation, m member) bool {
		request := guard.Request{Operation: operation, Guarded: true, Machine: guard.Machine{Replaceable: m.replaceable}, Group: guard.Group{
			Kind: "KubeadmControlPlane", Name: "cp", Desired: r.replicas, Machines: len(members),
		}}
		for _, other := range members {
			if other.replaceable {
				request.Group.Replaceable++
			}
		}
		return guard.Decide(request).Allowed
	}
	done := 0
	for _, m := range members {
		if m.done {
			done++
		}
	}
	outdated := done < len(members)
	switch {
	case outdated && len(members) < r.replicas+r.maxSurge, !outdated && len(members) < r.replicas:
		if !ask(guard.Create, member{}) {
			return nil
		}
		return [][]member{append(slices.Clone(members), member{done: true})}
	case !outdated && len(members) == r.replicas:
		return nil
	}
	var states [][]member
	for i, m := range members {
		switch {
		case m.done == outdated:
		case outdated && done < r.replicas:
			updated := slices.Clone(members)
			updated[i].done = true
			states = append(states, updated)
		case ask(guard.Delete, m):
			states = append(states, slices.Delete(slices.Clone(members), i, i+1))
		}
	}
	return states
}

// ends reports whether some run brings all Machines to the change.
func (r rollout) ends(members []member, seen map[string]bool) bool {
	key := fmt.Sprint(members)
	if seen[key] {
		return false
	}
	seen[key] = true
	if len(members) == r.replicas && !slices.ContainsFunc(members, func(m member) bool { return !m.done }) {
		return true
	}
	return slices.ContainsFunc(r.next(members), func(next []member) bool { return r.ends(next, seen) })
}

// TestIsStuck: no run of Cluster API's rollout beside the guard ends for a control plane that is stuck, and some run ends
// for any other one, for all sizes up to 4 and whatever Machines there are. If a person lets the wrong Machine be replaced, the
// guard's own message says which one to choose.
func TestIsStuck(t *testing.T) {
	t.Parallel()
	kinds := []member{{}, {replaceable: true}, {done: true}, {done: true, replaceable: true}}
	stuck := 0
	var walk func(r rollout, members []member)
	walk = func(r rollout, members []member) {
		if slices.ContainsFunc(members, func(m member) bool { return !m.done }) {
			c := guard.ControlPlane{Kind: "KubeadmControlPlane", Replicas: r.replicas, MaxSurge: r.maxSurge, Machines: len(members)}
			for _, m := range members {
				if m.replaceable {
					c.Replaceable++
				}
			}
			if c.IsStuck() {
				stuck++
			}
			ends := r.ends(members, map[string]bool{})
			if c.IsStuck() && ends || !c.IsStuck() && !ends && c.Replaceable == 0 {
				t.Errorf("%+v, Machines %v: a run ends is %t", r, members, ends)
			}
		}
		if len(members) > r.replicas+r.maxSurge {
			return
		}
		for _, kind := range kinds {
			walk(r, append(slices.Clone(members), kind))
		}
	}
	for replicas := 1; replicas <= 4; replicas++ {
		for maxSurge := range 2 {
			walk(rollout{replicas, maxSurge}, nil)
		}
	}
	if stuck == 0 {
		t.Error("no control plane is stuck")
	}
}

// TestWaysOut: each size has the ways out that Cluster API accepts.
func TestWaysOut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind     string
		replicas int
		want     string
	}{
		{"KubeadmControlPlane", 1, "let Machines be replaced"},
		{"KubeadmControlPlane", 2, "let Machines be replaced"},
		{"KubeadmControlPlane", 3, "set maxSurge 0"},
		{"RKE2ControlPlane", 1, "set maxSurge 0 (rollingUpdate in the rollout strategy of the RKE2ControlPlane"},
	} {
		replicas, want := tt.replicas, tt.want
		c := guard.ControlPlane{Kind: tt.kind, Name: "cp", Policy: "p", Replicas: replicas, MaxSurge: 1, Machines: replicas}
		if fix := c.Fix(); !c.IsStuck() || !strings.HasPrefix(fix, want) || len(c.Why()) > 200 {
			t.Errorf("%d replicas: %q, %q", replicas, c.Why(), fix)
		}
	}
}
