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

// group is a group of Machines to which nothing happens yet.
type group Scenario

// replaced, inPlace, kept and blocked are groups with these replicas, maxSurge and maxUnavailable.
// Changes replace the Machines, or update them in place. An UpdatePolicy keeps the Machines of the
// latter two, and updates in place cover no change of the last one.
func replaced(replicas, surge, unavailable int8) group {
	return group{Replicas: replicas, Surge: surge, Unavailable: unavailable}
}

func inPlace(replicas, surge, unavailable int8) group {
	g := replaced(replicas, surge, unavailable)
	g.Covered = true
	return g
}

func kept(replicas, surge, unavailable int8) group {
	g := inPlace(replicas, surge, unavailable)
	g.Keep = true
	return g
}

func blocked(replicas, surge, unavailable int8) group {
	g := replaced(replicas, surge, unavailable)
	g.Keep = true
	return g
}

// keptOnDelete is a kept group with the strategy OnDelete whose policy has it updated in place.
func keptOnDelete(replicas, unavailable int8) group {
	g := kept(replicas, 0, unavailable)
	g.UpdatesOnDelete = true
	return g
}

// beforeChange is the group before its template has changed.
func (g group) beforeChange() group { g.notBegun = true; return g }

// under is the group with the limits of an UpdatePolicy.
func (g group) under(l Limits) group { g.Limits = l; return g }

// scaledTo is the group if people set spec.replicas to these values.
func (g group) scaledTo(replicas ...int8) group { g.Scales = replicas; return g }

// with is the group with what may happen to it.
func (g group) with(f Faults) Scenario { g.Faults = f; return Scenario(g) }

// explorations are groups, and what may happen to them.
var explorations = map[string]Scenario{
	"replace, surge":       replaced(2, 1, 0).with(Faults{Crashes: 1, Races: 1}),
	"replace, unavailable": replaced(3, 0, 1).with(Faults{Crashes: 1}),
	"replace, both": group{Replicas: 3, Surge: 2, Unavailable: 1, gateOff: true}.
		with(Faults{Crashes: 1}),
	"replace, old counters":  replaced(2, 1, 1).with(Faults{Lags: 1}),
	"replace, breaks":        replaced(2, 1, 0).with(Faults{Breaks: 2}),
	"in place, unavailable":  inPlace(3, 0, 1).with(Faults{Crashes: 1}),
	"in place, surge":        inPlace(2, 1, 0).with(Faults{Crashes: 1, Races: 1}),
	"in place, old counters": inPlace(2, 1, 1).with(Faults{Lags: 1}),
	"in place, breaks":       inPlace(2, 1, 1).with(Faults{Breaks: 1, Deletes: 1}),
	"in place, swaps":        inPlace(2, 1, 1).with(Faults{Swaps: 2, Crashes: 1}),
	"scale":                  inPlace(2, 1, 1).scaledTo(1, 3).with(Faults{Scales: 2}),
	"changes":                inPlace(2, 1, 1).with(Faults{Changes: 1, Reverts: 1}),
	"changes, replace":       replaced(2, 1, 1).with(Faults{Changes: 1, Reverts: 2}),
	"changes and races":      replaced(2, 1, 1).with(Faults{Changes: 1, Reverts: 1, Races: 1}),
	"changes and crashes":    inPlace(2, 0, 1).with(Faults{Reverts: 1, Races: 1, Crashes: 1}),
	"pause":                  inPlace(2, 1, 1).scaledTo(0, 3).with(Faults{Pauses: 1, Scales: 1}),
	"pause before": replaced(2, 1, 0).beforeChange().scaledTo(0, 3).
		with(Faults{Pauses: 2, Scales: 2, Changes: 1}),
	"on delete": group{Replicas: 2, OnDelete: true}.scaledTo(1, 3).
		with(Faults{Deletes: 1, Scales: 1, Changes: 1}),
	"updater away":       inPlace(2, 0, 1).with(Faults{Outages: 2, Crashes: 1}),
	"keep":               kept(2, 0, 1).with(Faults{Crashes: 1, Races: 1, Outages: 1}),
	"keep, old counters": kept(2, 0, 1).with(Faults{Lags: 1, Deletes: 1}),
	"keep, scale":        kept(2, 1, 0).scaledTo(1, 3).with(Faults{Scales: 2}),
	"keep, not covered": blocked(2, 1, 0).scaledTo(1, 3).
		with(Faults{Crashes: 1, Scales: 1, Races: 1}),
	"keep, blocked, breaks": blocked(2, 1, 0).with(Faults{Breaks: 1, Crashes: 1, Races: 1}),
	"keep, blocked, reverts": blocked(2, 0, 1).
		with(Faults{Breaks: 2, Reverts: 1, Outages: 1, Deletes: 1}),
	"pause, no MachineSet": replaced(1, 0, 0).beforeChange().scaledTo(0, 2).
		with(Faults{Pauses: 1, Scales: 2, Changes: 1}),
	"keep, pause": blocked(2, 0, 0).beforeChange().scaledTo(1, 3).
		with(Faults{Pauses: 1, Scales: 1, Changes: 1, Deletes: 1}),
	"in place, hangs":      inPlace(2, 1, 1).with(Faults{Hangs: 1, Changes: 1}),
	"keep, hangs":          kept(2, 0, 1).with(Faults{Hangs: 1, Changes: 1, Crashes: 1}),
	"keep, reverts":        kept(2, 0, 2).with(Faults{Reverts: 1, Crashes: 2}),
	"keep, reverts, races": kept(2, 0, 2).with(Faults{Reverts: 1, Races: 1}),
	"keep, changes, races": kept(3, 0, 1).with(Faults{Changes: 1, Reverts: 1, Races: 1}),
	"keep, reverts, away":  kept(3, 0, 2).with(Faults{Reverts: 1, Outages: 1, Deletes: 1}),
	"keep, reverts, scale": kept(3, 0, 2).scaledTo(2).with(Faults{Reverts: 1, Scales: 1, Pauses: 1}),
	"keep, reverts, hangs": kept(2, 0, 2).with(Faults{Reverts: 1, Changes: 1, Hangs: 1}),
	"limits, canary": replaced(3, 1, 0).under(Limits{Canary: 1}).
		with(Faults{Crashes: 1, Races: 1}),
	"limits, canary, down": replaced(3, 0, 2).under(Limits{Canary: 1}).
		with(Faults{Crashes: 1, Races: 1}),
	"limits, in place": inPlace(3, 0, 2).under(Limits{Canary: 1}).with(Faults{Crashes: 1, Races: 1}),
	"limits, in place, lag": inPlace(3, 1, 2).under(Limits{Canary: 1, Batch: 1}).
		with(Faults{Lags: 1, Crashes: 1}),
	"limits, keep": kept(3, 0, 2).under(Limits{Canary: 1, Batch: 1}).
		with(Faults{Crashes: 1, Races: 1}),
	"limits, keep, lag": kept(3, 0, 2).under(Limits{Canary: 1, Partition: 1}).
		with(Faults{Lags: 1, Crashes: 1}),
	"limits, partition": replaced(3, 1, 1).under(Limits{Partition: 1}).
		with(Faults{Crashes: 1, Races: 1}),
	"limits, part, in place": inPlace(3, 1, 0).under(Limits{Partition: 1}).
		with(Faults{Crashes: 1, Races: 1}),
	"limits, part, lag": replaced(3, 1, 1).under(Limits{Partition: 2}).with(Faults{Lags: 1}),
	"limits, in flight": replaced(3, 2, 1).under(Limits{MaxInFlight: 1}).
		with(Faults{Crashes: 1, Races: 1}),
	"limits, in flight, lag": replaced(3, 2, 1).under(Limits{MaxInFlight: 1}).with(Faults{Lags: 1}),
	"limits, batches": replaced(3, 1, 2).under(Limits{Batch: 1}).
		with(Faults{Crashes: 1, Lags: 1}),
	"limits, flips": inPlace(3, 1, 1).under(Limits{Canary: 1, Partition: 1}).
		with(Faults{Flips: 3, Races: 1}),
	"limits, flips, replace": replaced(3, 1, 1).under(Limits{Canary: 1, Partition: 1}).
		with(Faults{Flips: 3, Crashes: 1}),
	"limits, flips, keep": kept(3, 0, 2).under(Limits{Canary: 1, Partition: 1}).
		with(Faults{Flips: 3, Crashes: 1}),
	"limits, scale": inPlace(2, 1, 1).scaledTo(1, 3).under(Limits{Canary: 1, Batch: 1}).
		with(Faults{Scales: 2}),
	"limits, scale, in place": inPlace(3, 0, 1).scaledTo(1, 2).under(Limits{Canary: 1}).
		with(Faults{Scales: 1}),
	"limits, scale, part": replaced(2, 1, 1).scaledTo(1, 4).under(Limits{Partition: 1}).
		with(Faults{Scales: 2, Crashes: 1}),
	"limits, deletes": inPlace(3, 0, 1).under(Limits{Canary: 1}).with(Faults{Deletes: 1, Races: 1}),
	"limits, deletes, keep": kept(3, 0, 1).under(Limits{Canary: 1, Batch: 1}).
		with(Faults{Deletes: 1, Crashes: 1}),
	"limits, breaks": replaced(3, 1, 1).under(Limits{Canary: 1}).with(Faults{Breaks: 1, Crashes: 1}),
	"limits, breaks, changes": inPlace(1, 0, 1).under(Limits{MaxInFlight: 1, Batch: 1}).
		with(Faults{Breaks: 1, Changes: 1}),
	"limits, hangs, scale": kept(3, 0, 1).scaledTo(1, 2).under(Limits{Canary: 1}).
		with(Faults{Scales: 1, Hangs: 1}),
	"limits, changes": inPlace(2, 1, 1).under(Limits{Canary: 1}).with(Faults{Changes: 1, Reverts: 1}),
	"limits, changes, new": replaced(3, 1, 1).under(Limits{Canary: 1}).
		with(Faults{Changes: 1, Reverts: 1, Crashes: 1}),
	"limits, changes, keep": kept(3, 0, 2).under(Limits{Canary: 1}).
		with(Faults{Changes: 1, Reverts: 1, Crashes: 1}),
	"limits, hangs, keep": kept(3, 0, 2).under(Limits{Canary: 1}).
		with(Faults{Hangs: 2, Crashes: 1, Races: 1}),
	"limits, hangs, retry": kept(3, 0, 2).under(Limits{Canary: 1, Batch: 1}).
		with(Faults{Hangs: 2, Retries: 1, Crashes: 1}),
	"limits, hangs, canary": kept(3, 0, 2).under(Limits{Canary: 1}).with(Faults{Hangs: 2, Retries: 1}),
	"limits, hangs, changes": kept(2, 0, 1).under(Limits{Canary: 1}).
		with(Faults{Hangs: 2, Changes: 1, Reverts: 1}),
	"limits, swaps": inPlace(3, 1, 1).under(Limits{Canary: 1, Partition: 1}).
		with(Faults{Swaps: 2}),
	"keep on delete, flips":  keptOnDelete(2, 1).with(Faults{Flips: 2, Crashes: 1}),
	"keep on delete, races":  keptOnDelete(2, 1).with(Faults{Flips: 2, Races: 1}),
	"keep on delete, lag":    keptOnDelete(2, 1).with(Faults{Flips: 2, Lags: 1}),
	"keep on delete, change": keptOnDelete(2, 1).with(Faults{Flips: 1, Changes: 1, Reverts: 1}),
	"keep on delete, pause":  keptOnDelete(2, 1).with(Faults{Flips: 1, Pauses: 1, Crashes: 1}),
	"keep on delete, two": keptOnDelete(3, 2).under(Limits{MaxInFlight: 2}).
		with(Faults{Flips: 1, Races: 1, Lags: 1}),
	"keep, changes": kept(2, 1, 0).with(Faults{Changes: 1, Reverts: 1, Pauses: 1}),
}

// troubled are other explorations, in which MachineSets fail.
var troubled = map[string]Scenario{
	"fails, replace":  replaced(2, 1, 1).with(Faults{Fails: 2, Sticks: 1}),
	"fails, in place": inPlace(3, 0, 1).with(Faults{Fails: 1, Sticks: 1}),
	"fails, scale":    inPlace(2, 1, 0).scaledTo(1, 3).with(Faults{Sticks: 1, Scales: 1}),
	"fails, changes, races": replaced(2, 1, 1).
		with(Faults{Sticks: 1, Changes: 1, Reverts: 1, Races: 1}),
	"fails, swaps":       inPlace(2, 1, 1).with(Faults{Sticks: 2, Swaps: 1}),
	"quota, scale":       replaced(3, 1, 0).scaledTo(2).with(Faults{Quotas: 1, Scales: 1}),
	"quota, scale, both": replaced(3, 1, 1).scaledTo(1, 2).with(Faults{Quotas: 1, Scales: 1}),
	"quota, in place":    inPlace(3, 1, 0).scaledTo(2).with(Faults{Quotas: 1, Scales: 1, Deletes: 1}),
	"halts, scale":       replaced(2, 1, 1).scaledTo(1, 3).with(Faults{Halts: 1, Scales: 1}),
	"keep, fails":        kept(2, 0, 1).scaledTo(1, 3).with(Faults{Fails: 1, Sticks: 1, Scales: 1}),
	"keep, fails, blocked": blocked(2, 0, 0).scaledTo(1, 3).
		with(Faults{Sticks: 1, Scales: 1, Deletes: 1}),
	"keep, fails, reverts": kept(3, 0, 2).with(Faults{Sticks: 1, Fails: 1, Reverts: 1, Races: 1}),
	"keep, quota": kept(3, 0, 2).scaledTo(2, 4).
		with(Faults{Quotas: 1, Scales: 1, Deletes: 1}),
	"keep, halts": blocked(2, 0, 0).scaledTo(1, 3).
		with(Faults{Halts: 1, Scales: 1, Deletes: 1}),
	"keep, halts, covered": kept(2, 0, 1).scaledTo(1, 3).with(Faults{Halts: 1, Scales: 1}),
	"limits, fails": inPlace(3, 1, 1).under(Limits{Canary: 1}).
		with(Faults{Fails: 1, Sticks: 1}),
}

// exhausted are the explorations in which a run without WINDLASS_LONG visits all that can happen.
var exhausted = sets.New(
	"fails, in place", "fails, scale", "fails, swaps", "in place, old counters",
	"keep on delete, flips",
	"in place, surge", "in place, swaps", "in place, unavailable", "keep, blocked, breaks",
	"keep, not covered", "limits, canary", "limits, canary, down", "limits, fails",
	"limits, breaks, changes", "limits, hangs, canary", "limits, in flight",
	"limits, in flight, lag", "limits, part, in place",
	"limits, part, lag", "limits, partition", "limits, scale, in place", "limits, swaps", "quota, scale",
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
				Scales: small.Draw(t, "scales"), Changes: 1, Reverts: 1,
				Pauses: small.Draw(t, "pauses"), Hangs: 1,
			},
		}
		s.Covered = rapid.Bool().Draw(t, "covered")
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
