package rollouts

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/windlass-dev/windlass/internal/pool"
)

// policies are the limits of UpdatePolicies for groups of ten Machines.
var policies = map[string]*pool.Limits{
	"none":      nil,
	"default":   {MaxInFlight: 1, Canary: intstr.FromInt32(1)},
	"in flight": {MaxInFlight: 4, Canary: intstr.FromInt32(0)},
	"canary":    {MaxInFlight: 4, Canary: intstr.FromString("20%")},
	"batches": {
		MaxInFlight: 4, Batches: []intstr.IntOrString{intstr.FromInt32(2), intstr.FromInt32(3)},
	},
	"partition": {MaxInFlight: 4, Partition: intstr.FromInt32(5)},
	"all": {
		MaxInFlight: 1, Canary: intstr.FromInt32(1), Partition: intstr.FromInt32(1),
		Batches: []intstr.IntOrString{intstr.FromInt32(1)},
	},
	"canary of all":    {MaxInFlight: 1, Canary: intstr.FromString("100%")},
	"partition of all": {MaxInFlight: 1, Canary: intstr.FromInt32(1), Partition: intstr.FromInt32(10)},
}

// groups returns all kinds of groups that windlass verify tells apart.
func groups() map[string]Group {
	all := map[string]Group{}
	add := func(name string, g Group) {
		for policy, limits := range policies {
			for _, covered := range []bool{false, true} {
				g.Covered, g.Limits = covered, limits
				all[fmt.Sprintf("%s, limits %s, covered %t", name, policy, covered)] = g
			}
		}
	}
	for name, budget := range map[string]pool.Budget{
		"surge": pool.NewBudget(10, 1, 0), "unavailable": pool.NewBudget(10, 0, 1),
		"surge and unavailable": pool.NewBudget(10, 3, 2), "two unavailable": pool.NewBudget(10, 0, 5),
		"one, surge": pool.NewBudget(1, 1, 0), "two, unavailable": pool.NewBudget(2, 0, 1),
	} {
		add(name, Group{Budget: budget})
		add(name+", kept", Group{Budget: budget, Keep: true})
	}
	ten := pool.Budget{Replicas: 10}
	add("on delete", Group{Budget: ten, OnDelete: true})
	add("on delete, kept", Group{Budget: ten, OnDelete: true, Keep: true})
	add("on delete, in place", Group{Budget: ten, OnDelete: true, UpdateOnDelete: true, Keep: true})
	return all
}

// quick are groups that are explored without WINDLASS_LONG, too.
var quick = sets.New(
	"surge, limits none, covered false", "unavailable, limits none, covered true",
	"surge, kept, limits default, covered false", "two, unavailable, kept, limits all, covered true",
	"two unavailable, kept, limits all, covered true",
	"one, surge, limits default, covered true", "on delete, limits none, covered false",
	"on delete, in place, limits all, covered true", "on delete, kept, limits none, covered false",
)

// TestStudies: what windlass verify explores of any group is visited wholly, and is safe.
func TestStudies(t *testing.T) {
	t.Parallel()
	long := os.Getenv("WINDLASS_LONG") == "1"
	known := groups()
	for name := range quick {
		if _, ok := known[name]; !ok {
			t.Errorf("there is no group %q", name)
		}
	}
	explored := sets.New[string]() // Describe may not tell all of them apart.
	for _, name := range slices.Sorted(maps.Keys(known)) {
		s := Represent(known[name])
		if explored.Has(fmt.Sprintf("%+v", s)) || !long && !quick.Has(name) {
			continue
		}
		explored.Insert(fmt.Sprintf("%+v", s))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states := 0
			for _, study := range Studies(s) {
				r, err := Explore(t.Context(), study.Scenario, 100_000)
				if err != nil || r.Violation != nil || !r.Complete {
					t.Errorf("%s: %d states, all: %v, %v\n%v", study.Varies, r.States, r.Complete, err,
						r.Violation)
				}
				states += r.States
			}
			t.Logf("%s: %d states", s.Describe(), states)
		})
	}
}

// combined are faults that only show if disturbances of several studies come together.
var combined = sets.New(
	"drops the mark to receive with the policy", "believes that each spec was read",
)

// TestStudiesFindFaults: an engine that is broken is found by what windlass verify explores of the
// group, and without the comparison with stock.
func TestStudiesFindFaults(t *testing.T) {
	t.Parallel()
	for name, tt := range faulty() {
		if tt.engine.Decide == nil || tt.scenario.notBegun || combined.Has(name) {
			continue // The fault is not the engine's, or shows only before the rollout begins.
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := silent(tt.scenario)
			s.Engine = tt.engine
			for _, study := range Studies(s) {
				r, err := Explore(t.Context(), study.Scenario, 5_000)
				if err != nil {
					t.Fatal(err)
				}
				if r.Violation != nil {
					return
				}
			}
			t.Errorf("%s: the fault is not found", s.Describe())
		})
	}
}

// TestKnownGaps: what docs/how-to/verify-an-upgrade.md and the notes of windlass verify name as not
// explored does go wrong. A test that fails here is good news for both.
func TestKnownGaps(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scenario Scenario
		want     string
	}{
		"availability after a revert of a revert": {
			Scenario{Replicas: 3, Surge: 1, Covered: true, Faults: Faults{Changes: 1, Reverts: 1}},
			"2 Machines are available, and at least 3 must be",
		},
		"a batch after a revert": {
			Scenario{Replicas: 3, Unavailable: 2, Covered: true, Limits: Limits{Batch: 1},
				Faults: Faults{Changes: 1, Reverts: 1}},
			"2 Machines are at the new template, and at most 1 may be",
		},
		"a canary after a change": {
			Scenario{Replicas: 3, Unavailable: 2, Covered: true, Limits: Limits{Canary: 1},
				Faults: Faults{Changes: 1}},
			"2 Machines are at the new template, and at most 1 may be",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finds(t, tt.scenario, Engine{}, tt.want)
		})
	}
}

// TestKeptHasNoGaps: what TestKnownGaps shows does not happen to a group whose Machines are kept.
func TestKeptHasNoGaps(t *testing.T) {
	t.Parallel()
	kept := Scenario{
		Replicas: 3, Unavailable: 2, Keep: true, Covered: true, Limits: Limits{Canary: 1, Batch: 1},
	}
	changed, scaled := kept, kept
	changed.Faults.Changes = 1
	scaled.Faults.Scales, scaled.Scales = 1, []int8{1}
	for name, s := range map[string]Scenario{"changed": changed, "scaled down": scaled} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Explore(t.Context(), s, 100_000)
			if err != nil || r.Violation != nil || !r.Complete {
				t.Errorf("%d states, all: %v, %v\n%v", r.States, r.Complete, err, r.Violation)
			}
		})
	}
}

func TestRepresent(t *testing.T) {
	t.Parallel()
	limits := policies["all"]
	for name, tt := range map[string]struct {
		group Group
		want  string
	}{
		"the default": {
			Group{Budget: pool.NewBudget(3, 1, 0)}, "3 machines, maxSurge 1, maxUnavailable 0, replaced",
		},
		"many": {
			Group{Budget: pool.NewBudget(100, 25, 25), Covered: true, Limits: policies["batches"]},
			"2 machines, maxSurge 1, maxUnavailable 1, updated in place, maxInFlight 2, batches 1",
		},
		"none": {
			Group{Budget: pool.NewBudget(0, 1, 0)}, "1 machine, maxSurge 1, maxUnavailable 0, replaced",
		},
		"kept, several at once": {
			Group{Budget: pool.NewBudget(10, 0, 3), Keep: true, Covered: true, Limits: limits},
			"3 machines, maxSurge 0, maxUnavailable 2, updated in place, kept by the UpdatePolicy, " +
				"maxInFlight 1, canary 1, batches 1, partition 1",
		},
		"a partition of all": {
			Group{Budget: pool.NewBudget(10, 0, 1), Keep: true, Limits: policies["partition of all"]},
			"3 machines, maxSurge 0, maxUnavailable 1, no updater covers the change, " +
				"kept by the UpdatePolicy, maxInFlight 1, canary 1, partition 3",
		},
		"kept, with surge": {
			Group{Budget: pool.NewBudget(10, 3, 3), Keep: true, Covered: true},
			"3 machines, maxSurge 1, maxUnavailable 2, updated in place, kept by the UpdatePolicy",
		},
		"people delete, kept": {
			Group{Budget: pool.Budget{Replicas: 5}, OnDelete: true, Keep: true, Covered: true},
			"3 machines, strategy OnDelete, people delete them, kept by the UpdatePolicy",
		},
		"people delete": {
			Group{Budget: pool.Budget{Replicas: 5}, OnDelete: true, Limits: limits},
			"3 machines, strategy OnDelete, people delete them",
		},
		"OnDelete, in place": {
			Group{
				Budget: pool.Budget{Replicas: 5}, OnDelete: true, UpdateOnDelete: true, Keep: true,
				Covered: true, Limits: policies["default"],
			},
			"3 machines, strategy OnDelete, updated in place by the UpdatePolicy, maxInFlight 1, canary 1",
		},
	} {
		s := Represent(tt.group)
		if diff := cmp.Diff(tt.want, s.Describe()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTooLarge: a scenario that the world has no room for is an error.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Scenario{
		"many replicas":    {Replicas: 7},
		"a negative limit": {Replicas: 1, Limits: Limits{Canary: -1}},
		"scaled to many":   {Replicas: 1, Scales: []int8{100}},
	} {
		if r, err := Explore(t.Context(), s, 10); err == nil {
			t.Errorf("%s: no error, %d states", name, r.States)
		}
	}
	full := newExplorer(Scenario{})
	w := full.Begin()
	for i := range w.machines {
		w.machines[i].exists = true
	}
	full.create(&w, operation{kind: createMachine})
	if !errors.Is(full.err, errFull) || len(slices.Collect(full.Steps(w, false))) > 0 {
		t.Errorf("there is no room for another Machine, and the error is %v", full.err)
	}
	long := newExplorer(Scenario{})
	long.intern(make([]operation, maxOperations+1))
	if !errors.Is(long.err, errFull) {
		t.Errorf("there is no room for another operation, and the error is %v", long.err)
	}
}
