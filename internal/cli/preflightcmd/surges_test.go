package preflightcmd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
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
		{Name: "MachineDeployment kept", Nodes: []string{"kept"}, Kept: true},
		{Name: "MachineDeployment replaced", Nodes: []string{"replaced"}, Surge: true},
	}
	got := poolsOf(objects, []v1alpha1.UpdatePolicy{policy}, management.Settings{})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"kept"}, keptNodes(objects, []v1alpha1.UpdatePolicy{policy})); diff != "" {
		t.Errorf("kept Nodes (-want +got):\n%s", diff)
	}
	policy.Spec.Targets[0].ClusterName = "other"
	if got := keptNodes(objects, []v1alpha1.UpdatePolicy{policy}); len(got) > 0 {
		t.Errorf("another Cluster's policy keeps %v", got)
	}
}

// TestStuck: a preflight fails for a control plane that would be stuck, before its version changes.
func TestStuck(t *testing.T) {
	t.Parallel()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	controlPlane := &unstructured.Unstructured{Object: map[string]any{
		"kind": "KubeadmControlPlane", "metadata": map[string]any{"namespace": "ns", "name": "cp"},
		"spec": map[string]any{"version": "v1.31.1"},
	}}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""}}}
	machine.OwnerReferences = []metav1.OwnerReference{{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane", Name: "cp", Controller: new(true)}}
	machine.Spec.Version = "v1.31.1"
	objects := snapshot.Objects{Cluster: cluster, ControlPlane: controlPlane, Machines: []*clusterv1.Machine{machine}}
	keep := v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "keep"}}
	keep.Spec.Targets = []v1alpha1.UpdateTarget{{ClusterName: "c"}}
	keep.Spec.Strategy, keep.Spec.Fallback = v1alpha1.ExternalUpdate, v1alpha1.FallbackNone
	replace := *keep.DeepCopy()
	replace.Spec.Fallback = v1alpha1.FallbackRollingUpdate
	surge := func(n int64) map[string]any { return map[string]any{"rollingUpdate": map[string]any{"maxSurge": n}} }
	for name, tt := range map[string]struct {
		policies []v1alpha1.UpdatePolicy
		to       string
		want     clustercheck.Outcome
		// other is the rollout strategy of a control plane of another kind.
		other map[string]any
		kind  string
	}{
		"RKE2, kept":                           {[]v1alpha1.UpdatePolicy{keep}, "v1.32.4", clustercheck.Failed, surge(1), "RKE2ControlPlane"},
		"RKE2, one at a time":                  {[]v1alpha1.UpdatePolicy{keep}, "v1.32.4", clustercheck.Passed, surge(0), "RKE2ControlPlane"},
		"RKE2, by default":                     {[]v1alpha1.UpdatePolicy{keep}, "v1.32.4", clustercheck.Failed, map[string]any{}, "RKE2ControlPlane"},
		"RKE2, its only machine removed first": {nil, "v1.32.4", clustercheck.Failed, surge(0), "RKE2ControlPlane"},
		"RKE2, its only machine replaced":      {nil, "v1.32.4", clustercheck.Passed, surge(1), "RKE2ControlPlane"},
		"of another kind":                      {[]v1alpha1.UpdatePolicy{keep}, "v1.32.4", clustercheck.Failed, surge(1), "AcmeControlPlane"},
		"of a kind whose default nobody knows": {[]v1alpha1.UpdatePolicy{keep}, "v1.32.4", clustercheck.Passed, map[string]any{}, "AcmeControlPlane"},
		"kept":                                 {[]v1alpha1.UpdatePolicy{keep}, "v1.32.4", clustercheck.Failed, nil, ""},
		"has it":                               {[]v1alpha1.UpdatePolicy{keep}, "v1.31.1", clustercheck.Passed, nil, ""},
		"may be replaced":                      {[]v1alpha1.UpdatePolicy{replace}, "v1.32.4", clustercheck.Passed, nil, ""},
		"no policy":                            {nil, "v1.32.4", clustercheck.Passed, nil, ""},
	} {
		objects := objects
		if tt.kind != "" {
			objects.ControlPlane = controlPlane.DeepCopy()
			objects.ControlPlane.SetKind(tt.kind)
			objects.ControlPlane.Object["spec"] = map[string]any{"version": "v1.31.1", "rolloutStrategy": tt.other}
		}
		found := preflight.CheckControlPlane(rolloutOf(objects, tt.policies, version.MustParse(tt.to)))
		if len(found) != 1 || found[0].ID != preflight.ControlPlaneCanMove || found[0].Outcome != tt.want {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
