package doctor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestMachinePools has two MachinePools in the topology. The second one does not exist yet.
func TestMachinePools(t *testing.T) {
	t.Parallel()
	const both = `MachinePool prod-mp-0 "all", MachinePool of topology mp-1 "all"`
	target := func(change func(*v1alpha1.UpdateTarget)) func(*Facts) {
		return func(f *Facts) { change(&f.Policies[0].Spec.Targets[0]) }
	}
	selects := func(pool string) func(*v1alpha1.UpdateTarget) {
		return func(t *v1alpha1.UpdateTarget) {
			t.Selector = &metav1.LabelSelector{
				MatchLabels: map[string]string{clusterv1.ClusterTopologyMachinePoolNameLabel: pool},
			}
		}
	}
	for name, test := range map[string]struct {
		change func(*Facts)
		want   string
	}{
		"a policy for the Cluster": {want: both},
		"machines may be replaced": {want: both, change: func(f *Facts) {
			f.Policies[0].Spec.Fallback = v1alpha1.FallbackRollingUpdate
		}},
		"a policy by labels": {
			change: target(selects("mp-0")), want: `MachinePool prod-mp-0 "all"`,
		},
		"a policy by labels, before the MachinePool exists": {
			change: target(selects("mp-1")), want: `MachinePool of topology mp-1 "all"`,
		},
		"not in the topology": {
			change: func(f *Facts) {
				f.Objects.Cluster.Spec.Topology.Workers.MachinePools = nil
				f.Objects.MachinePools[0].Labels = nil
			},
			want: `MachinePool prod-mp-0 "all"`,
		},
		"a policy for the control plane": {
			change: target(func(t *v1alpha1.UpdateTarget) { t.ControlPlane = true }),
		},
		"a policy by name": {change: target(func(t *v1alpha1.UpdateTarget) {
			t.MachineDeployments = []v1alpha1.MachineDeploymentName{"md-0", "mp-0", "prod-mp-0"}
		})},
		"a policy for another Cluster": {
			change: target(func(t *v1alpha1.UpdateTarget) { t.ClusterName = "other" }),
		},
		"a policy that replaces": {change: func(f *Facts) {
			f.Policies[0].Spec.Strategy, f.Policies[0].Spec.Fallback = v1alpha1.RollingUpdate, ""
		}},
		"policies in conflict": {change: func(f *Facts) {
			twin := f.Policies[0]
			twin.Name = "twin"
			f.Policies = append(f.Policies, twin)
		}},
		"no policy": {change: func(f *Facts) { f.Policies = nil }},
		"policies cannot be read": {change: func(f *Facts) {
			f.Unread = append(f.Unread, Unread{Source: SourcePolicies, Problem: "forbidden"})
		}},
		"no MachinePools": {change: func(f *Facts) {
			f.Objects.MachinePools, f.Objects.Cluster.Spec.Topology.Workers.MachinePools = nil, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := healthy()
			f.Objects.Cluster.Spec.Topology.Workers.MachinePools = []clusterv1.MachinePoolTopology{
				{Name: "mp-0", Class: "pool"}, {Name: "mp-1", Class: "pool"},
			}
			f.Objects.MachinePools = []*clusterv1.MachinePool{{ObjectMeta: metav1.ObjectMeta{
				Name: "prod-mp-0", Namespace: "team-a",
				Labels: map[string]string{clusterv1.ClusterTopologyMachinePoolNameLabel: "mp-0"},
			}}}
			if test.change != nil {
				test.change(&f)
			}
			if diff := cmp.Diff(test.want, poolFindings(t, f)); diff != "" {
				t.Errorf("MachinePools and the policies that are named to them (-want +got):\n%s", diff)
			}
		})
	}
}

// poolFindings returns the subjects of findings about MachinePools, each with the UpdatePolicy that
// it names. They must change no other finding, and no result about machines that can be kept.
func poolFindings(t *testing.T, f Facts) string {
	t.Helper()
	var about []string
	all, verdict := Examine(f)
	for _, found := range all {
		if !strings.HasPrefix(found.Subject, "MachinePool ") {
			continue
		}
		_, rest, _ := strings.Cut(found.Message, "such as ")
		policy, _, named := strings.Cut(rest, ",")
		if found.ID != CheckPolicy || found.Severity != Warning || found.Fix == "" || !named {
			t.Errorf("the finding is %+v", found)
		}
		about = append(about, found.Subject+" "+policy)
	}
	f.Objects.MachinePools, f.Objects.Cluster.Spec.Topology.Workers.MachinePools = nil, nil
	if _, want := Examine(f); verdict != want {
		t.Errorf("the verdict is %q, and without MachinePools %q", verdict, want)
	}
	return strings.Join(about, ", ")
}
