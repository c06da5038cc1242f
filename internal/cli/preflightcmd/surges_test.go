package preflightcmd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/snapshot"
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

// TestPoolsInPlace: a machine that is updated in place is drained without a new one beside it.
func TestPoolsInPlace(t *testing.T) {
	t.Parallel()
	cluster := metav1.ObjectMeta{Namespace: "ns", Name: "c"}
	objects := snapshot.Objects{Cluster: &clusterv1.Cluster{ObjectMeta: cluster}}
	for _, name := range []string{"kept", "replaced"} {
		meta := metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{
			clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentNameLabel: name,
		}}
		m := &clusterv1.Machine{ObjectMeta: meta}
		m.Status.NodeRef.Name = name
		objects.Machines = append(objects.Machines, m)
		objects.MachineDeployments = append(objects.MachineDeployments,
			&clusterv1.MachineDeployment{ObjectMeta: meta})
	}
	policy := v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	policy.Spec.Targets = []v1alpha1.UpdateTarget{{
		MachineDeployments: []v1alpha1.MachineDeploymentName{"kept"},
	}}
	policy.Spec.Strategy, policy.Spec.MaxInFlight = v1alpha1.ExternalUpdate, 1
	want := []preflight.Pool{
		{Name: "MachineDeployment kept", Nodes: []string{"kept"}},
		{Name: "MachineDeployment replaced", Nodes: []string{"replaced"}, Surge: true},
	}
	got := poolsOf(objects, []v1alpha1.UpdatePolicy{policy})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}
