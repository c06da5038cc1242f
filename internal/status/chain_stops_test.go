package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// TestPlanChanges: stops that have come and gone since the plan was made are told.
func TestPlanChanges(t *testing.T) {
	t.Parallel()
	list := func(texts ...string) []version.Version { return versions(texts...) }
	for name, tt := range map[string]struct {
		planned *chain.Planned
		want    []string
	}{
		"none was recorded": {},
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
