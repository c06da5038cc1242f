package preflightcmd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// TestJoiningOf: what machines need that a rollout adds comes from the Cluster, the strategies, the policies
// and the bootstrap configs.
func TestJoiningOf(t *testing.T) {
	t.Parallel()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "prod"}}
	cluster.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"10.244.0.0/21"}
	group := func(name string) *clusterv1.MachineDeployment {
		return &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, Labels: map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: name},
		}}
	}
	cp := &unstructured.Unstructured{Object: map[string]any{"kind": "KubeadmControlPlane"}}
	cp.SetName("cp")
	kept := v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "keep"}}
	kept.Spec.Targets = []v1alpha1.UpdateTarget{{
		ClusterName: "prod", MachineDeployments: []v1alpha1.MachineDeploymentName{"kept"},
	}}
	kept.Spec.Strategy, kept.Spec.MaxInFlight = v1alpha1.ExternalUpdate, 1
	config := settings.Object{Kind: "RKE2ConfigTemplate", Name: "historian", Content: map[string]any{"spec": map[string]any{
		"template": map[string]any{"spec": map[string]any{"agentConfig": map[string]any{"nodeName": "historian-0"}}},
	}}}
	read := management.Settings{Bootstrap: map[string]settings.Object{"named": config}}
	objects := snapshot.Objects{
		Cluster: cluster, ControlPlane: cp,
		MachineDeployments: []*clusterv1.MachineDeployment{group("named"), group("kept")},
	}
	want := preflight.Joining{
		PodNetworks: []string{"10.244.0.0/21"},
		Groups: []preflight.JoiningGroup{
			{Subject: "KubeadmControlPlane cp", Surge: true},
			{
				Subject: "MachineDeployment named", Config: "RKE2ConfigTemplate historian", Surge: true,
				NodeName: "historian-0", Replicas: 1,
			},
		},
	}
	if diff := cmp.Diff(want, joiningOf(objects, []v1alpha1.UpdatePolicy{kept}, read)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	const spec = `{"template":{"spec":{"agentConfig":{"nodeName":"historian-0"}}}}`
	if got := encodeSpec(config); got != spec {
		t.Errorf("the config is %s, want %s", got, spec)
	}
	if got := encodeSpec(read.Bootstrap["kept"]); got != "" {
		t.Errorf("a config that is not known is %s", got)
	}
}
