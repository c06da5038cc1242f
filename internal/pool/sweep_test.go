package pool_test

import (
	"slices"
	"testing"

	"github.com/windlass-dev/windlass/internal/pool"
)

// TestRollingUpdateSweep applies the rules to all small groups with one old MachineSet, and checks
// each plan in the worst case: available Machines are deleted first, and updates in place make
// their Machine unavailable.
func TestRollingUpdateSweep(t *testing.T) {
	t.Parallel()
	groups := 0
	for budget := range budgets(3) {
		for _, newest := range sizes("new", 3) {
			for _, old := range sizes("old", 3) {
				for _, covered := range []bool{false, true} {
					old.Eligible = true
					r := pool.Rollout{
						Budget: budget, InPlaceUpdates: true, New: newest, Old: []pool.Sizes{old},
					}
					checkRollingUpdate(
						t,
						r,
						r.RollingUpdate(map[string]bool{"old": covered}),
						covered,
					)
					groups++
				}
			}
		}
	}
	if groups < 10_000 {
		t.Errorf("only %d groups were checked", groups)
	}
}

// budgets yields all budgets with up to most replicas and limits up to 2.
func budgets(most int32) func(func(pool.Budget) bool) {
	return func(yield func(pool.Budget) bool) {
		for replicas := range most + 1 {
			for surge := range int32(3) {
				for unavailable := range int32(3) {
					if surge+unavailable == 0 || unavailable > replicas {
						continue
					}
					b := pool.Budget{Replicas: replicas, Surge: surge, Unavailable: unavailable}
					if !yield(b) {
						return
					}
				}
			}
		}
	}
}

// sizes returns all MachineSets with up to most replicas and Machines.
func sizes(name string, most int32) []pool.Sizes {
	var all []pool.Sizes
	for replicas := range most + 1 {
		for machines := range most + 1 {
			for available := range machines + 1 {
				all = append(all, pool.Sizes{
					Name:     name,
					Replicas: replicas,
					Target:   replicas,
					Counts: pool.Counts{
						Machines:  machines,
						Available: available,
						UpToDate:  available,
					},
				})
			}
		}
	}
	return all
}

func checkRollingUpdate(t *testing.T, before, after pool.Rollout, covered bool) {
	t.Helper()
	fail := func(what string) {
		t.Helper()
		t.Fatalf("%s\nbefore %+v\nafter  %+v", what, before, after)
	}
	if after.New.Target < 0 || after.Old[0].Target < 0 {
		fail("negative replicas")
	}
	if after.New.Target > before.Replicas {
		fail("the new MachineSet has more replicas than the MachineDeployment")
	}
	if after.Old[0].Target > before.Old[0].Replicas {
		fail("an old MachineSet grows")
	}
	limit := max(before.Replicas+before.Surge, total(before, false))
	if total(after, true) > limit {
		fail("maxSurge is exceeded")
	}
	if (after.Old[0].MoveTo != "") != slices.Contains(after.New.ReceiveFrom, "old") {
		fail("the marks of a move do not match")
	}
	if after.Old[0].MoveTo != "" && !covered {
		fail("Machines move without coverage")
	}
	checkAvailability(t, before, after, fail)
}

// checkAvailability: a plan for the old MachineSet keeps maxUnavailable. Stock does not count what
// a person's scaling takes away from the new one at the same time, so such groups are left out.
func checkAvailability(t *testing.T, before, after pool.Rollout, fail func(string)) {
	t.Helper()
	for _, n := range after.New.Notes {
		if n.Reason == pool.ReasonDeadlock {
			return
		}
	}
	lost := worst(after.Old[0])
	if lost <= worst(before.Old[0]) {
		return // not by this plan
	}
	if worst(after.New) > 0 {
		return
	}
	available := before.New.Counts.Available + before.Old[0].Counts.Available
	if available-lost < before.MinAvailable() {
		fail("maxUnavailable is exceeded")
	}
}

// worst is how many available Machines are lost if they are deleted first.
func worst(s pool.Sizes) int32 {
	return min(s.Counts.Available, max(s.Counts.Machines-s.Target, 0))
}

func total(r pool.Rollout, planned bool) int32 {
	var n int32
	for _, s := range append([]pool.Sizes{r.New}, r.Old...) {
		replicas := s.Replicas
		if planned {
			replicas = s.Target
		}
		n += max(replicas, s.Counts.Machines)
	}
	return n
}

// TestRulesKeepInputs: a rule returns a changed copy.
func TestRulesKeepInputs(t *testing.T) {
	t.Parallel()
	old := []pool.Sizes{
		{
			Name:     "b",
			Replicas: 2,
			Target:   2,
			Counts:   pool.Counts{Machines: 2, Available: 2},
			Eligible: true,
		},
		{Name: "a", Replicas: 2, Target: 2, Counts: pool.Counts{Machines: 1}, Eligible: true},
	}
	r := pool.Rollout{
		Budget: pool.Budget{Replicas: 4, Unavailable: 2}, InPlaceUpdates: true,
		New: pool.Sizes{Name: "new"}, Old: slices.Clone(old),
	}
	r.RollingUpdate(map[string]bool{"a": true, "b": true})
	r.DeleteOnly()
	r.BreakDeadlock()
	for i := range old {
		if r.Old[i].Name != old[i].Name || r.Old[i].Target != 2 || len(r.Old[i].Notes) != 0 {
			t.Errorf("MachineSet %d was changed to %+v", i, r.Old[i])
		}
	}
}
