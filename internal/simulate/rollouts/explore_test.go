package rollouts

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/simulate/search"
)

var explorations = map[string]Scenario{
	"replace, surge":       {Replicas: 2, Surge: 1, Faults: Faults{Crashes: 1, Races: 1}},
	"replace, unavailable": {Replicas: 3, Unavailable: 1, Faults: Faults{Crashes: 1}},
	"replace, both": {
		Replicas: 3, Surge: 2, Unavailable: 1, gateOff: true,
		Faults: Faults{Crashes: 1},
	},
	"replace, old counters": {Replicas: 2, Surge: 1, Unavailable: 1, Faults: Faults{Lags: 1}},
	"replace, breaks":       {Replicas: 2, Surge: 1, Faults: Faults{Breaks: 2}},
	"in place, unavailable": {Replicas: 3, Unavailable: 1, Covered: true, Faults: Faults{Crashes: 1}},
	"in place, surge": {
		Replicas: 2, Surge: 1, Covered: true,
		Faults: Faults{Crashes: 1, Races: 1},
	},
	"in place, old counters": {
		Replicas: 2, Surge: 1, Unavailable: 1, Covered: true,
		Faults: Faults{Lags: 1},
	},
	"in place, breaks": {
		Replicas: 2, Surge: 1, Unavailable: 1, Covered: true,
		Faults: Faults{Breaks: 1, Deletes: 1},
	},
	"in place, swaps": {
		Replicas: 2, Surge: 1, Unavailable: 1, Covered: true,
		Faults: Faults{Swaps: 2, Crashes: 1},
	},
	"scale": {
		Replicas: 2, Surge: 1, Unavailable: 1, Covered: true, Scales: []int8{1, 3},
		Faults: Faults{Scales: 2},
	},
	"changes": {
		Replicas: 2, Surge: 1, Unavailable: 1, Covered: true,
		Faults: Faults{Changes: 1, Reverts: 1},
	},
	"changes, replace": {
		Replicas: 2, Surge: 1, Unavailable: 1,
		Faults: Faults{Changes: 1, Reverts: 2},
	},
	"changes and races": {
		Replicas: 2, Surge: 1, Unavailable: 1,
		Faults: Faults{Changes: 1, Reverts: 1, Races: 1},
	},
	"changes and crashes": {
		Replicas: 2, Unavailable: 1, Covered: true,
		Faults: Faults{Reverts: 1, Races: 1, Crashes: 1},
	},
	"pause": {
		Replicas: 2, Surge: 1, Unavailable: 1, Covered: true, Scales: []int8{0, 3},
		Faults: Faults{Pauses: 1, Scales: 1},
	},
	"pause before": {
		Replicas: 2, Surge: 1, notBegun: true, Scales: []int8{0, 3},
		Faults: Faults{Pauses: 2, Scales: 2, Changes: 1},
	},
	"on delete": {
		Replicas: 2, OnDelete: true, Scales: []int8{1, 3},
		Faults: Faults{Deletes: 1, Scales: 1, Changes: 1},
	},
	"updater away": {
		Replicas: 2, Unavailable: 1, Covered: true,
		Faults: Faults{Outages: 2, Crashes: 1},
	},
	"keep": {
		Replicas: 2, Unavailable: 1, Keep: true, Covered: true,
		Faults: Faults{Crashes: 1, Races: 1, Outages: 1},
	},
	"keep, old counters": {
		Replicas: 2, Unavailable: 1, Keep: true, Covered: true,
		Faults: Faults{Lags: 1, Deletes: 1},
	},
	"keep, scale": {
		Replicas: 2, Surge: 1, Keep: true, Covered: true, Scales: []int8{1, 3},
		Faults: Faults{Scales: 2},
	},
	"keep, not covered": {
		Replicas: 2, Surge: 1, Keep: true, Scales: []int8{1, 3},
		Faults: Faults{Crashes: 1, Scales: 1, Races: 1},
	},
	"keep, blocked, breaks": {
		Replicas: 2, Surge: 1, Keep: true,
		Faults: Faults{Breaks: 1, Crashes: 1, Races: 1},
	},
	"keep, blocked, reverts": {
		Replicas: 2, Unavailable: 1, Keep: true,
		Faults: Faults{Breaks: 2, Reverts: 1, Outages: 1, Deletes: 1},
	},
	"pause, no MachineSet": {
		Replicas: 1, notBegun: true, Scales: []int8{0, 2},
		Faults: Faults{Pauses: 1, Scales: 2, Changes: 1},
	},
	"keep, pause": {
		Replicas: 2, notBegun: true, Keep: true, Scales: []int8{1, 3},
		Faults: Faults{Pauses: 1, Scales: 1, Changes: 1, Deletes: 1},
	},
	"in place, hangs": {
		Replicas: 2, Surge: 1, Unavailable: 1, Covered: true,
		Faults: Faults{Hangs: 1, Changes: 1},
	},
	"keep, hangs": {
		Replicas: 2, Unavailable: 1, Keep: true, Covered: true,
		Faults: Faults{Hangs: 1, Changes: 1, Crashes: 1},
	},
	"keep, reverts": {
		Replicas: 2, Unavailable: 2, Keep: true, Covered: true,
		Faults: Faults{Reverts: 1, Crashes: 2},
	},
	"keep, reverts, races": {
		Replicas: 2, Unavailable: 2, Keep: true, Covered: true,
		Faults: Faults{Reverts: 1, Races: 1},
	},
	"keep, changes, races": {
		Replicas: 3, Unavailable: 1, Keep: true, Covered: true,
		Faults: Faults{Changes: 1, Reverts: 1, Races: 1},
	},
	"keep, reverts, away": {
		Replicas: 3, Unavailable: 2, Keep: true, Covered: true,
		Faults: Faults{Reverts: 1, Outages: 1, Deletes: 1},
	},
	"keep, reverts, scale": {
		Replicas: 3, Unavailable: 2, Keep: true, Covered: true, Scales: []int8{2},
		Faults: Faults{Reverts: 1, Scales: 1, Pauses: 1},
	},
	"keep, reverts, hangs": {
		Replicas: 2, Unavailable: 2, Keep: true, Covered: true,
		Faults: Faults{Reverts: 1, Changes: 1, Hangs: 1},
	},
	"limits, canary": {
		Replicas: 3, Surge: 1, Limits: Limits{Canary: 1},
		Faults: Faults{Crashes: 1, Races: 1},
	},
	"limits, canary, down": {
		Replicas: 3, Unavailable: 2, Limits: Limits{Canary: 1},
		Faults: Faults{Crashes: 1, Races: 1},
	},
	"limits, in place": {
		Replicas: 3, Unavailable: 2, Covered: true, Limits: Limits{Canary: 1},
		Faults: Faults{Crashes: 1, Races: 1},
	},
	"limits, in place, lag": {
		Replicas: 3, Surge: 1, Unavailable: 2, Covered: true, Limits: Limits{Canary: 1, Batch: 1},
		Faults: Faults{Lags: 1, Crashes: 1},
	},
	"limits, keep": {
		Replicas: 3, Unavailable: 2, Keep: true, Covered: true, Limits: Limits{Canary: 1, Batch: 1},
		Faults: Faults{Crashes: 1, Races: 1},
	},
	"limits, keep, lag": {
		Replicas: 3, Unavailable: 2, Keep: true, Covered: true, Limits: Limits{Canary: 1, Partition: 1},
		Faults: Faults{Lags: 1, Crashes: 1},
	},
	"limits, partition": {
		Replicas: 3, Surge: 1, Unavailable: 1, Limits: Limits{Partition: 1},
		Faults: Faults{Crashes: 1, Races: 1},
	},
	"limits, part, in place": {
		Replicas: 3, Surge: 1, Covered: true, Limits: Limits{Partition: 1},
		Faults: Faults{Crashes: 1, Races: 1},
	},
	"limits, part, lag": {
		Replicas: 3, Surge: 1, Unavailable: 1, Limits: Limits{Partition: 2},
		Faults: Faults{Lags: 1},
	},
	"limits, in flight": {
		Replicas: 3, Surge: 2, Unavailable: 1, Limits: Limits{MaxInFlight: 1},
		Faults: Faults{Crashes: 1, Races: 1},
	},
	"limits, in flight, lag": {
		Replicas: 3, Surge: 2, Unavailable: 1, Limits: Limits{MaxInFlight: 1},
		Faults: Faults{Lags: 1},
	},
	"limits, batches": {
		Replicas: 3, Surge: 1, Unavailable: 2, Limits: Limits{Batch: 1},
		Faults: Faults{Crashes: 1, Lags: 1},
	},
	"limits, flips": {
		Replicas: 3, Surge: 1, Unavailable: 1, Covered: true, Limits: Limits{Canary: 1, Partition: 1},
		Faults: Faults{Flips: 3, Races: 1},
	},
	"limits, flips, replace": {
		Replicas: 3, Surge: 1, Unavailable: 1, Limits: Limits{Canary: 1, Partition: 1},
		Faults: Faults{Flips: 3, Crashes: 1},
	},
	"limits, flips, keep": {
		Replicas: 3, Unavailable: 2, Keep: true, Covered: true, Limits: Limits{Canary: 1, Partition: 1},
		Faults: Faults{Flips: 3, Crashes: 1},
	},
	"limits, scale": {
		Replicas: 2, Surge: 1, Unavailable: 1, Covered: true, Scales: []int8{1, 3},
		Limits: Limits{Canary: 1, Batch: 1},
		Faults: Faults{Scales: 2},
	},
	"limits, scale, part": {
		Replicas: 2, Surge: 1, Unavailable: 1, Scales: []int8{1, 4}, Limits: Limits{Partition: 1},
		Faults: Faults{Scales: 2, Crashes: 1},
	},
	"limits, deletes": {
		Replicas: 3, Unavailable: 1, Covered: true, Limits: Limits{Canary: 1},
		Faults: Faults{Deletes: 1, Races: 1},
	},
	"limits, deletes, keep": {
		Replicas: 3, Unavailable: 1, Keep: true, Covered: true, Limits: Limits{Canary: 1, Batch: 1},
		Faults: Faults{Deletes: 1, Crashes: 1},
	},
	"limits, breaks": {
		Replicas: 3, Surge: 1, Unavailable: 1, Limits: Limits{Canary: 1},
		Faults: Faults{Breaks: 1, Crashes: 1},
	},
	"limits, breaks, changes": {
		Replicas: 1, Unavailable: 1, Covered: true, Limits: Limits{MaxInFlight: 1, Batch: 1},
		Faults: Faults{Breaks: 1, Changes: 1},
	},
	"limits, changes": {
		Replicas: 2, Surge: 1, Unavailable: 1, Covered: true, Limits: Limits{Canary: 1},
		Faults: Faults{Changes: 1, Reverts: 1},
	},
	"limits, changes, new": {
		Replicas: 3, Surge: 1, Unavailable: 1, Limits: Limits{Canary: 1},
		Faults: Faults{Changes: 1, Reverts: 1, Crashes: 1},
	},
	"limits, changes, keep": {
		Replicas: 3, Unavailable: 2, Keep: true, Covered: true, Limits: Limits{Canary: 1},
		Faults: Faults{Changes: 1, Reverts: 1, Crashes: 1},
	},
	"limits, hangs, keep": {
		Replicas: 3, Unavailable: 2, Keep: true, Covered: true, Limits: Limits{Canary: 1},
		Faults: Faults{Hangs: 2, Crashes: 1, Races: 1},
	},
	"limits, hangs, retry": {
		Replicas: 3, Unavailable: 2, Keep: true, Covered: true, Limits: Limits{Canary: 1, Batch: 1},
		Faults: Faults{Hangs: 2, Retries: 1, Crashes: 1},
	},
	"limits, hangs, canary": {
		Replicas: 3, Unavailable: 2, Keep: true, Covered: true, Limits: Limits{Canary: 1},
		Faults: Faults{Hangs: 2, Retries: 1},
	},
	"limits, hangs, changes": {
		Replicas: 2, Unavailable: 1, Keep: true, Covered: true, Limits: Limits{Canary: 1},
		Faults: Faults{Hangs: 2, Changes: 1, Reverts: 1},
	},
	"limits, swaps": {
		Replicas: 3, Surge: 1, Unavailable: 1, Covered: true, Limits: Limits{Canary: 1, Partition: 1},
		Faults: Faults{Swaps: 2},
	},
	"keep on delete, flips": {
		Replicas: 2, Unavailable: 1, Keep: true, UpdatesOnDelete: true, Covered: true,
		Faults: Faults{Flips: 2, Crashes: 1},
	},
	"keep on delete, races": {
		Replicas: 2, Unavailable: 1, Keep: true, UpdatesOnDelete: true, Covered: true,
		Faults: Faults{Flips: 2, Races: 1},
	},
	"keep on delete, lag": {
		Replicas: 2, Unavailable: 1, Keep: true, UpdatesOnDelete: true, Covered: true,
		Faults: Faults{Flips: 2, Lags: 1},
	},
	"keep on delete, change": {
		Replicas: 2, Unavailable: 1, Keep: true, UpdatesOnDelete: true, Covered: true,
		Faults: Faults{Flips: 1, Changes: 1, Reverts: 1},
	},
	"keep on delete, pause": {
		Replicas: 2, Unavailable: 1, Keep: true, UpdatesOnDelete: true, Covered: true,
		Faults: Faults{Flips: 1, Pauses: 1, Crashes: 1},
	},
	"keep on delete, two": {
		Replicas: 3, Unavailable: 2, Keep: true, UpdatesOnDelete: true, Covered: true,
		Limits: Limits{MaxInFlight: 2},
		Faults: Faults{Flips: 1, Races: 1, Lags: 1},
	},
	"keep, changes": {
		Replicas: 2, Surge: 1, Keep: true, Covered: true,
		Faults: Faults{Changes: 1, Reverts: 1, Pauses: 1},
	},
}

// troubled are explorations in which MachineSets fail.
var troubled = map[string]Scenario{
	"fails, replace": {
		Replicas: 2, Surge: 1, Unavailable: 1,
		Faults: Faults{Fails: 2, Sticks: 1},
	},
	"fails, in place": {
		Replicas: 3, Unavailable: 1, Covered: true,
		Faults: Faults{Fails: 1, Sticks: 1},
	},
	"fails, scale": {
		Replicas: 2, Surge: 1, Covered: true, Scales: []int8{1, 3},
		Faults: Faults{Sticks: 1, Scales: 1},
	},
	"fails, changes, races": {
		Replicas: 2, Surge: 1, Unavailable: 1,
		Faults: Faults{Sticks: 1, Changes: 1, Reverts: 1, Races: 1},
	},
	"fails, swaps": {
		Replicas: 2, Surge: 1, Unavailable: 1, Covered: true,
		Faults: Faults{Sticks: 2, Swaps: 1},
	},
	"quota, scale": {
		Replicas: 3, Surge: 1, Scales: []int8{2},
		Faults: Faults{Quotas: 1, Scales: 1},
	},
	"quota, scale, both": {
		Replicas: 3, Surge: 1, Unavailable: 1, Scales: []int8{1, 2},
		Faults: Faults{Quotas: 1, Scales: 1},
	},
	"quota, in place": {
		Replicas: 3, Surge: 1, Covered: true, Scales: []int8{2},
		Faults: Faults{Quotas: 1, Scales: 1, Deletes: 1},
	},
	"halts, scale": {
		Replicas: 2, Surge: 1, Unavailable: 1, Scales: []int8{1, 3},
		Faults: Faults{Halts: 1, Scales: 1},
	},
	"keep, fails": {
		Replicas: 2, Unavailable: 1, Keep: true, Covered: true, Scales: []int8{1, 3},
		Faults: Faults{Fails: 1, Sticks: 1, Scales: 1},
	},
	"keep, fails, blocked": {
		Replicas: 2, Keep: true, Scales: []int8{1, 3},
		Faults: Faults{Sticks: 1, Scales: 1, Deletes: 1},
	},
	"keep, fails, reverts": {
		Replicas: 3, Unavailable: 2, Keep: true, Covered: true,
		Faults: Faults{Sticks: 1, Fails: 1, Reverts: 1, Races: 1},
	},
	"keep, quota": {
		Replicas: 3, Unavailable: 2, Keep: true, Covered: true, Scales: []int8{2, 4},
		Faults: Faults{Quotas: 1, Scales: 1, Deletes: 1},
	},
	"keep, halts": {
		Replicas: 2, Keep: true, Scales: []int8{1, 3},
		Faults: Faults{Halts: 1, Scales: 1, Deletes: 1},
	},
	"keep, halts, covered": {
		Replicas: 2, Unavailable: 1, Keep: true, Covered: true, Scales: []int8{1, 3},
		Faults: Faults{Halts: 1, Scales: 1},
	},
	"limits, fails": {
		Replicas: 3, Surge: 1, Unavailable: 1, Covered: true, Limits: Limits{Canary: 1},
		Faults: Faults{Fails: 1, Sticks: 1},
	},
}

// exhausted are the explorations in which a run without WINDLASS_LONG visits all that can happen.
var exhausted = sets.New(
	"fails, in place", "fails, scale", "fails, swaps", "in place, old counters",
	"keep on delete, flips",
	"in place, surge", "in place, swaps", "in place, unavailable", "keep, blocked, breaks",
	"keep, not covered", "limits, canary", "limits, canary, down", "limits, fails",
	"limits, breaks, changes", "limits, hangs, canary", "limits, in flight",
	"limits, in flight, lag", "limits, part, in place",
	"limits, part, lag", "limits, partition", "limits, swaps", "quota, scale",
	"replace, old counters", "replace, surge", "replace, unavailable", "updater away",
)

// TestExplore visits all that can happen to a group, within bounds, and checks after every step
// what must always hold.
func TestExplore(t *testing.T) {
	t.Parallel()
	limit, long := 3_000, os.Getenv("WINDLASS_LONG") == "1"
	if long {
		limit = 200_000
	}
	all := maps.Clone(explorations)
	maps.Copy(all, troubled)
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Explore(t.Context(), s, limit)
			if err != nil || r.Violation != nil {
				t.Fatal(r.Violation, err)
			}
			t.Logf("%d states, %d transitions, all: %v", r.States, r.Transitions, r.Complete)
			if r.States < 100 {
				t.Errorf("only %d states: the model does not move", r.States)
			}
			switch {
			case exhausted.Has(name) && !r.Complete:
				t.Errorf("it has more than %d states. Fix: make it smaller, or remove it from the list "+
					"of those that are exhausted", limit)
			case r.Complete && !exhausted.Has(name) && !long:
				t.Error("all is visited. Fix: add it to the list of those that are exhausted")
			}
		})
	}
}

// TestWalk takes random ways through larger groups. RAPID_SEED repeats one.
//
// Caches do not lag here: if the template changes twice while the cache of Machines is behind the
// Machines that a MachineSet has just created, more Machines than allowed exist for a while, by
// stock's rules and by these.
func TestWalk(t *testing.T) {
	t.Parallel()
	if os.Getenv("WINDLASS_LONG") != "1" {
		t.Skip("random ways need WINDLASS_LONG=1")
	}
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.Int8Range(0, 2)
		s := Scenario{
			Replicas: rapid.Int8Range(1, 5).Draw(t, "replicas"), Surge: small.Draw(t, "surge"),
			Unavailable: small.Draw(t, "unavailable"), Keep: rapid.Bool().Draw(t, "keep"),
			Scales: []int8{0, 2, 4, 6},
			Faults: Faults{
				Crashes: 2, Races: 2, Outages: 1, Breaks: small.Draw(t, "breaks"), Deletes: 1,
				Scales: small.Draw(t, "scales"), Changes: 1, Reverts: 1, Pauses: small.Draw(t,
					"pauses"), Hangs: 1,
			},
		}
		if rapid.Bool().Draw(t, "covered") {
			s.Covered = true
		}
		e, known := newExplorer(s), search.NewKnown[scene]()
		w := e.Begin()
		var trail []string
		for range 60 {
			all := slices.Collect(e.Steps(w, true))
			if len(all) == 0 {
				break
			}
			next := all[rapid.IntRange(0, len(all)-1).Draw(t, "step")]
			trail = append(trail, next.Label)
			if next.Problem != "" {
				t.Fatalf("%s\n%v\nVIOLATION: %s", strings.Join(trail, "\n"), &w, next.Problem)
			}
			w = next.To
		}
		if violation, last := e.Fair(w, known, true); violation != "" {
			t.Fatalf("%s\n%v\n%s\nVIOLATION: %s", strings.Join(trail, "\n"), &w,
				strings.Join(last, "\n"), violation)
		}
		if e.err != nil {
			t.Fatal(e.err)
		}
	})
}
