package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

func TestWaits(t *testing.T) {
	t.Parallel()
	const why = "its rollout strategy is OnDelete: "
	for name, tt := range map[string]struct {
		done   int
		change func(*Facts)
		want   string
	}{
		"kept": {done: 10, want: why + "2 machines wait until a person deletes them. " +
			"Fix: annotate the Machines that may be replaced with windlass.dev/allow-replacement, " +
			"and delete them; to update them in place, set onDelete InPlace in UpdatePolicy workers"},
		"one": {done: 11, change: func(f *Facts) { f.Policies = nil },
			want: why + "1 machine waits until a person deletes it. " +
				"Fix: delete the machines that may be replaced"},
		"not kept": {
			done: 10, change: func(f *Facts) {
				f.Policies[0].Spec.Fallback = v1alpha1.FallbackRollingUpdate
			},
			want: why + "2 machines wait until a person deletes them. " +
				"Fix: delete the machines that may be replaced; " +
				"to update them in place, set onDelete InPlace in UpdatePolicy workers",
		},
		"stock": {done: 10, change: func(f *Facts) { f.Rollouts.Engine = "" },
			want: why + "2 machines wait until a person deletes them. " +
				"Fix: annotate the Machines that may be replaced with windlass.dev/allow-replacement, " +
				"and delete them"},
		"in place": {done: 10, change: func(f *Facts) {
			f.Policies[0].Spec.OnDelete = v1alpha1.OnDeleteInPlace
		}},
		"none waits": {done: 12},
		"RollingUpdate": {done: 10, change: func(f *Facts) {
			strategy := &f.MachineDeployments[0].Spec.Rollout.Strategy
			strategy.Type = clusterv1.RollingUpdateMachineDeploymentStrategyType
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := rollingPool(tt.done, 0)
			strategy := &f.MachineDeployments[0].Spec.Rollout.Strategy
			strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
			if tt.change != nil {
				tt.change(&f)
			}
			got := Compute(f, after(time.Hour)).Groups[0].Waits
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("what the group waits for (-want +got):\n%s", diff)
			}
		})
	}
}
