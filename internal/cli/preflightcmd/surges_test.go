package preflightcmd

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestSurges(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind               clusterv1.MachineDeploymentRolloutStrategyType
		surge, unavailable *intstr.IntOrString
		want               bool
	}{
		"by default":             {want: true},
		"none":                   {surge: new(intstr.FromInt32(0))},
		"a percentage":           {surge: new(intstr.FromString("10%")), want: true},
		"an old machine as well": {surge: new(intstr.FromInt32(1)), unavailable: new(intstr.FromInt32(1))},
		"people delete":          {kind: clusterv1.OnDeleteMachineDeploymentStrategyType},
		"unreadable":             {surge: new(intstr.FromString("few"))},
	} {
		md := &clusterv1.MachineDeployment{}
		md.Spec.Rollout.Strategy.Type = tt.kind
		md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = tt.surge
		md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = tt.unavailable
		if got := surges(md); got != tt.want {
			t.Errorf("%s: surges is %v", name, got)
		}
	}
}
