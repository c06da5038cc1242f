package status

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
)

// TestPolicyNamesLimits: the limits of rollouts are named where windlass manager applies them.
func TestPolicyNamesLimits(t *testing.T) {
	t.Parallel()
	policy := v1alpha1.UpdatePolicy{}
	policy.Namespace, policy.Name = "team-a", "workers"
	policy.Spec = v1alpha1.UpdatePolicySpec{
		Targets: []v1alpha1.UpdateTarget{{}}, Strategy: v1alpha1.ExternalUpdate,
		RolloutLimits: v1alpha1.RolloutLimits{Partition: new(intstr.FromInt32(2))},
	}
	f := Facts{Policies: []v1alpha1.UpdatePolicy{policy}}
	f.Cluster = &clusterv1.Cluster{}
	md := &clusterv1.MachineDeployment{}
	f.Cluster.Namespace, f.Cluster.Name, md.Namespace, md.Name = "team-a", "prod", "team-a", "md-0"
	for engine, want := range map[string]string{
		"":                     "workers: in place only",
		v1alpha1.EngineManager: "workers: in place only (partition 2)",
	} {
		f.Rollouts.Engine = engine
		if got := describePolicy(f, md); got != want {
			t.Errorf("%s: the policy is %q, want %q", engine, got, want)
		}
	}
}

func describePolicy(f Facts, md *clusterv1.MachineDeployment) string {
	p, _ := policyOf(f, policy.CompileAll(f.Policies), md)
	return p.Describe()
}
