package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// done is a step of the control plane that took some minutes, and one of workers after it; 0 leaves that out.
func done(to string, began, controlPlane, workers int) chain.Step {
	minutes := func(n int) time.Time { return after(time.Duration(n) * time.Minute) }
	s := chain.Step{To: version.MustParse(to), Began: minutes(began)}
	if controlPlane != 0 {
		s.ControlPlane = minutes(began + controlPlane)
	}
	if workers != 0 {
		s.Workers = minutes(began + controlPlane + workers)
	}
	return s
}

func TestEstimate(t *testing.T) {
	ten := func(version.Version) int { return 10 }
	for _, test := range []struct {
		name string
		done []chain.Step
		load func(version.Version) int
		left workLeft
		want Estimate
	}{
		{"nothing is left", []chain.Step{done("v1.31.0", 0, 3, 10)}, ten, workLeft{since: start}, Estimate{}},
		{"nothing is done", nil, ten, workLeft{controlPlane: 1}, Estimate{Unknown: etaNoControlPlane}},
		{"the first step runs", []chain.Step{done("v1.31.0", 0, 0, 0)}, ten, workLeft{controlPlane: 1}, Estimate{Unknown: etaNoControlPlane}},
		{"no workers yet", []chain.Step{done("v1.31.0", 0, 3, 0)}, ten, workLeft{controlPlane: 1, machines: 1}, Estimate{Unknown: etaNoWorkers}},
		{"only the control plane is left", []chain.Step{done("v1.31.0", 0, 3, 0)}, ten, workLeft{since: start, controlPlane: 2},
			Estimate{Since: start, Least: 6 * time.Minute, Likely: 6 * time.Minute, Most: 6 * time.Minute}},
		{"steps differ", []chain.Step{done("v1.31.0", 0, 3, 10), done("v1.32.0", 20, 6, 20), done("v1.33.0", 50, 3, 0)}, ten, workLeft{since: start, controlPlane: 1, machines: 20},
			Estimate{Since: start, Least: 23 * time.Minute, Likely: 34 * time.Minute, Most: 46 * time.Minute}},
		{"a clock that was set back", []chain.Step{done("v1.31.0", 0, -3, 2)}, ten, workLeft{controlPlane: 1}, Estimate{Unknown: etaNoControlPlane}},
		{"no machines then", []chain.Step{done("v1.31.0", 0, 3, 2)}, func(version.Version) int { return 0 }, workLeft{machines: 1}, Estimate{Unknown: etaNoWorkers}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, computeEstimate(test.done, test.load, test.left)); diff != "" {
				t.Errorf("the estimate (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEstimateOrder checks that the range holds what is likely, and that more work never takes less.
func TestEstimateOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) chain.Step {
			return done("v1.31.0", 0, rapid.IntRange(0, 100).Draw(t, "control plane"), rapid.IntRange(0, 100).Draw(t, "workers"))
		}), 0, 6).Draw(t, "steps")
		load := func(version.Version) int { return 7 }
		left := workLeft{since: start, controlPlane: rapid.IntRange(0, 6).Draw(t, "steps left"), machines: rapid.IntRange(0, 1000).Draw(t, "machines left")}
		e := computeEstimate(steps, load, left)
		if e.Least > e.Likely || e.Likely > e.Most {
			t.Fatalf("%v is no range", e)
		}
		if more := computeEstimate(steps, load, workLeft{controlPlane: left.controlPlane + 1, machines: left.machines}); more.Unknown == "" && more.Most < e.Most {
			t.Fatalf("one step more takes %v instead of %v", more, e)
		}
	})
}

func TestLoad(t *testing.T) {
	groups := []groupLoad{{plan.MachineDeployment, 10}, {plan.MachineDeployment, 4}, {plan.MachinePool, 3}, {plan.MachineDeployment, 5}}
	for _, test := range []struct{ concurrency, want int }{{0, 22}, {1, 22}, {2, 13}, {3, 13}, {1000000000, 13}} {
		if got := computeLoad(groups, test.concurrency); got != test.want {
			t.Errorf("with %d at a time %d machines move one after another, want %d", test.concurrency, got, test.want)
		}
	}
	if got := computeLoad(nil, 1); got != 0 {
		t.Errorf("no groups: %d", got)
	}
}

// TestHeldTimeIsNoWork: the time in which gates held the upgrade counts for no step, and moves the end of
// what is under way.
func TestHeldTimeIsNoWork(t *testing.T) {
	t.Parallel()
	without := Compute(midChain().facts(t), after(60*time.Minute)).Chain.ETA
	if !without.Known() {
		t.Fatal("there is no estimate to compare with")
	}
	passed := func(uid string, from, to int) v1alpha1.GatePassed {
		minutes := func(n int) metav1.Time { return metav1.NewTime(after(time.Duration(n) * time.Minute)) }
		return v1alpha1.GatePassed{ClusterUID: uid, Since: minutes(from), Time: minutes(to)}
	}
	u := midChain()
	const hold = 10
	later := func(at *time.Time, minutes int) {
		if !at.IsZero() {
			*at = at.Add(time.Duration(minutes) * time.Minute)
		}
	}
	// Two gates hold after minute 1, when the first step of the control plane runs, for 10 minutes in
	// sum, and one of them after the last thing that is recorded, for 10 minutes, too.
	u.gates = []v1alpha1.UpgradeGate{{}, {}}
	u.gates[0].Status.Passed = []v1alpha1.GatePassed{passed("uid-prod", 1, 8), passed("uid-other", 20, 50)}
	u.gates[1].Status.Passed = []v1alpha1.GatePassed{passed("uid-prod", 5, 11), passed("uid-prod", 30, 40), passed("uid-prod", 50, 45)}
	later(&u.progress.Steps[0].ControlPlane, hold)
	later(&u.progress.Steps[0].Workers, hold)
	later(&u.progress.Steps[1].Began, hold)
	later(&u.progress.Steps[1].ControlPlane, hold)
	want := without
	later(&want.Since, 2*hold)
	if diff := cmp.Diff(want, Compute(u.facts(t), after(60*time.Minute)).Chain.ETA); diff != "" {
		t.Errorf("the estimate (-want +got):\n%s", diff)
	}
}
