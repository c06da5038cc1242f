package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestStepsStay: while groups follow the control plane one after another, the steps stay the same, and
// so do their groups and their machines.
func TestStepsStay(t *testing.T) {
	t.Parallel()
	var want []string
	for i, now := range []struct {
		md0, md1 testGroup
		state    StepState
		updated  int
	}{
		{testGroup{template: "v1.31.0", kubelets: repeat(2, "v1.31.0")}, testGroup{template: "v1.31.0", kubelets: repeat(2, "v1.31.0")}, StepNext, 0},
		{testGroup{template: "v1.32.0", kubelets: []string{"v1.32.0", "v1.31.0"}}, testGroup{template: "v1.31.0", kubelets: repeat(2, "v1.31.0")}, StepRunning, 1},
		{testGroup{template: "v1.32.0", kubelets: repeat(2, "v1.32.0")}, testGroup{template: "v1.31.0", kubelets: repeat(2, "v1.31.0")}, StepNext, 2},
		{testGroup{template: "v1.32.0", kubelets: repeat(2, "v1.32.0")}, testGroup{template: "v1.32.0", kubelets: repeat(2, "v1.31.0")}, StepRunning, 2},
		{testGroup{template: "v1.32.0", kubelets: repeat(2, "v1.32.0")}, testGroup{template: "v1.32.0", kubelets: []string{"v1.31.0", "v1.32.0"}}, StepRunning, 3},
	} {
		u := midChain()
		now.md0.name, now.md1.name = "md-0", "md-1"
		u.groups = []testGroup{now.md0, now.md1}
		report := Compute(u.facts(t), start).Chain
		var got []string
		for _, s := range report.Steps {
			got = append(got, fmt.Sprintf("%s %s %v %d", s.Kind, s.To, s.Groups, s.Machines))
			if s.Kind == plan.WorkersUpgrade && s.To == version.MustParse("v1.32.0") &&
				(s.State != now.state || s.Updated != now.updated) {
				t.Errorf("moment %d: %s, %d of %d", i, s.State, s.Updated, s.Machines)
			}
		}
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("moment %d (-first +now):\n%s", i, diff)
		}
	}
}

// TestTakenBack: a step that was taken back is not done, and the manager that took it back still drives
// the upgrade, although the control plane has the stamp of that step.
func TestTakenBack(t *testing.T) {
	t.Parallel()
	v := version.MustParse
	u := midChain()
	u.controlPlane, u.members, u.stamp = "v1.32.0", repeat(3, "v1.31.0"), "v1.32.9"
	u.groups = []testGroup{{name: "md-0", template: "v1.31.0", kubelets: repeat(2, "v1.31.0")}}
	u.pending = "AfterClusterUpgrade,AfterControlPlaneUpgrade"
	u.progress = way(
		chain.Step{To: v("v1.32.9"), Began: after(12 * time.Minute)},
		chain.Step{To: v("v1.32.0"), Began: after(20 * time.Minute), InsteadOf: v("v1.32.9")},
	)
	unrecorded := u
	unrecorded.progress = way(u.progress.Steps[1])
	unrecorded.annotations = map[string]string{
		v1alpha1.ChainIntentAnnotation: `{"from": "v1.32.9", "to": "v1.32.0", "passed": "2026-07-01T12:20:00Z"}`,
	}
	want := []string{
		"Done ControlPlaneUpgrade v1.30.0->v1.31.0", "Done WorkersUpgrade ->v1.31.0",
		"Running ControlPlaneUpgrade v1.31.0->v1.32.0",
	}
	for name, u := range map[string]upgrade{"recorded": u, "not recorded yet": unrecorded} {
		c := Compute(u.facts(t), after(time.Hour)).Chain
		var got []string
		for _, s := range c.Steps {
			if s.State != StepNext {
				got = append(got, fmt.Sprintf("%s %s %s->%s", s.State, s.Kind, s.From, s.To))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: steps (-want +got):\n%s", name, diff)
		}
		if c.Engine != Windlass || !c.From.Equal(v("v1.30.0")) || len(c.NotKnown) > 0 {
			t.Errorf("%s: by %s, from %s, not known: %q", name, c.Engine, c.From, c.NotKnown)
		}
	}
}

// TestOldPlan: the plan in the Cluster's status still has the stop that the last group has begun to go to,
// until the controller looks again. That holds nothing.
func TestOldPlan(t *testing.T) {
	t.Parallel()
	ours := midChain()
	ours.target, ours.groups, ours.source, ours.problem = "v1.34.0", ours.groups[:1], nil, "the extension is not asked"
	plans := func(workers ...string) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) {
			c.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
				UpgradePlan: []clusterv1.StatusUpgradePlanVersion{{Version: "v1.33.0"}, {Version: "v1.34.0"}},
			}
			c.Status.Workers = &clusterv1.WorkersStatus{}
			for _, v := range workers {
				plan := clusterv1.StatusUpgradePlanVersion{Version: v}
				c.Status.Workers.UpgradePlan = append(c.Status.Workers.UpgradePlan, plan)
			}
		}
	}
	stock := ours
	stock.stamp, stock.progress = "", nil
	there := ours
	there.groups = []testGroup{{name: "md-0", template: "v1.32.0", kubelets: repeat(2, "v1.32.0")}}
	done := stock
	done.target, done.groups = "v1.32.0", []testGroup{{name: "md-0", template: "v1.32.0", kubelets: repeat(2, "v1.32.0")}}
	for name, tt := range map[string]struct {
		upgrade upgrade
		stops   []string
		reason  chain.Reason
		next    int
	}{
		"the plan is new":              {ours, []string{"v1.33.0", "v1.34.0"}, chain.WorkersUpgrading, 4},
		"the plan is old":              {ours, []string{"v1.32.0", "v1.33.0", "v1.34.0"}, chain.WorkersUpgrading, 4},
		"the plan is old, stock":       {stock, []string{"v1.32.0", "v1.33.0", "v1.34.0"}, chain.WorkersUpgrading, 4},
		"the group is there":           {there, []string{"v1.32.0", "v1.33.0", "v1.34.0"}, chain.HookDue, 4},
		"the last stop is behind":      {done, []string{"v1.32.0"}, chain.HookDue, 0},
		"the plan is of other workers": {ours, []string{"v1.34.0", "v1.33.0"}, chain.NoSource, 0},
	} {
		u := tt.upgrade
		u.change = plans(tt.stops...)
		if name == "the last stop is behind" {
			u.change = func(c *clusterv1.Cluster) { plans(tt.stops...)(c); c.Status.ControlPlane.UpgradePlan = nil }
		}
		c := Compute(u.facts(t), after(time.Hour)).Chain
		next := 0
		for _, s := range c.Steps {
			if s.State == StepNext {
				next++
			}
		}
		if c.Reason != tt.reason || len(c.Holds) > 0 || next != tt.next {
			t.Errorf("%s: %s, held by %v, steps %+v", name, c.Reason, c.Holds, c.Steps)
		}
	}
}

// TestPlanChanges: stops that have come and gone since the plan was made are told.
func TestPlanChanges(t *testing.T) {
	t.Parallel()
	list := func(texts ...string) []version.Version { return versions(texts...) }
	for name, tt := range map[string]struct {
		planned *chain.Planned
		// target is that of the record, if it is not the Cluster's any more.
		target string
		want   []string
	}{
		"none was recorded": {},
		"for another target": {
			planned: &chain.Planned{Made: after(14 * time.Minute), ControlPlane: list("v1.32.0", "v1.32.5", "v1.33.0"), Workers: list("v1.32.0", "v1.33.0")},
			target:  "v1.32.5",
			want:    []string{"the control plane: no stop at v1.32.5, which was planned: the target was changed from v1.32.5 to v1.33.0"},
		},
		"the same": {planned: &chain.Planned{
			Made: start, ControlPlane: list("v1.31.0", "v1.32.0", "v1.33.0"), Workers: list("v1.31.0", "v1.32.0", "v1.33.0"),
		}},
		"made on the way": {planned: &chain.Planned{
			Made: after(14 * time.Minute), ControlPlane: list("v1.32.0", "v1.33.0"), Workers: list("v1.32.0", "v1.33.0"),
		}},
		"others": {
			planned: &chain.Planned{
				Made: after(14 * time.Minute), ControlPlane: list("v1.32.0", "v1.32.5", "v1.33.0"), Workers: list("v1.33.0"),
			},
			want: []string{
				"the control plane: no stop at v1.32.5, which was planned: the versions on offer, the groups or their policies have changed since",
				"workers: stop at v1.32.0, which was not planned (md-0, md-1): the GenerateUpgradePlan response lists v1.32.0",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := midChain()
			u.progress.Planned = tt.planned
			if tt.target != "" {
				u.progress.Target = version.MustParse(tt.target)
			}
			got := Compute(u.facts(t), start).Chain
			if diff := cmp.Diff(tt.want, []string(got.PlanChanges)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tt.planned != nil && !got.PlanMade.Equal(tt.planned.Made) {
				t.Errorf("made %s", got.PlanMade)
			}
		})
	}
}
