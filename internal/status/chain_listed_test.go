package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/pkg/plan"
)

// TestListedStops holds that the stops which an extension has listed count for all groups, and those which the groups' own
// plans explain only for the groups that need them.
func TestListedStops(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		listed []string
		want   []string
	}{
		"of the groups' own plans": {listed: []string{"v1.33.0"}, want: []string{"WorkersUpgrade v1.31.0->v1.33.0 [md-0 md-1]"}},
		"listed by an extension": {
			listed: []string{"v1.32.0", "v1.33.0"},
			want:   []string{"WorkersUpgrade v1.31.0->v1.32.0 [md-0 md-1]", "WorkersUpgrade v1.32.0->v1.33.0 [md-0 md-1]"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := midChain()
			u.source, u.problem, u.pending = nil, "the extension is not asked", "AfterClusterUpgrade"
			for i := range u.groups {
				u.groups[i].template, u.groups[i].kubelets = "v1.31.0", repeat(2, "v1.31.0")
			}
			u.change = func(c *clusterv1.Cluster) {
				c.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{UpgradePlan: []clusterv1.StatusUpgradePlanVersion{{Version: "v1.33.0"}}}
				c.Status.Workers = &clusterv1.WorkersStatus{}
				for _, v := range tt.listed {
					c.Status.Workers.UpgradePlan = append(c.Status.Workers.UpgradePlan, clusterv1.StatusUpgradePlanVersion{Version: v})
				}
			}
			var got []string
			for _, s := range Compute(u.facts(t), after(20*time.Minute)).Chain.Steps {
				if s.State != StepDone && s.Kind == plan.WorkersUpgrade {
					got = append(got, fmt.Sprintf("%s %s->%s %v", s.Kind, s.From, s.To, s.Groups))
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("worker steps to come (-want +got):\n%s", diff)
			}
		})
	}
}
