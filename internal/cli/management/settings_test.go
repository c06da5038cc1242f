package management

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windlass-dev/windlass/internal/snapshot"
)

// TestSettingsOfClass: what a patch that knows the version wrote is passing, in the objects that the
// patch selects; all else is as it will be.
func TestSettingsOfClass(t *testing.T) {
	t.Parallel()
	const configs = "bootstrap.cluster.x-k8s.io"
	scheme := runtime.NewScheme()
	kinds := clusterv1.GroupVersion
	kinds.Group = configs
	config := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"template": map[string]any{"spec": map[string]any{
			"joinConfiguration": map[string]any{"nodeRegistration": map[string]any{
				"kubeletExtraArgs":      []any{map[string]any{"name": "a", "value": "b"}},
				"ignorePreflightErrors": []any{"SystemVerification"},
			}},
		}},
	}}}
	config.SetGroupVersionKind(kinds.WithKind("KubeadmConfigTemplate"))
	config.SetNamespace("ns")
	config.SetName("workers")
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(config).Build()
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{kinds})
	mapper.Add(config.GroupVersionKind(), meta.RESTScopeNamespace)
	controlPlane := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"kubeadmConfigSpec": map[string]any{"clusterConfiguration": map[string]any{
			"apiServer": map[string]any{"extraArgs": []any{map[string]any{"name": "c", "value": "d"}}},
		}},
	}}}
	controlPlane.SetKind("KubeadmControlPlane")
	controlPlane.SetName("cp")
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "c-md", Labels: map[string]string{
			clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md",
		},
	}}
	md.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: configs, Kind: "KubeadmConfigTemplate", Name: "workers",
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{
		{Name: "md", Class: "default-worker"},
	}
	patch := func(enabledIf string, match clusterv1.PatchSelectorMatch) *clusterv1.ClusterClass {
		class := &clusterv1.ClusterClass{}
		class.Spec.Patches = []clusterv1.ClusterClassPatch{{
			Name: "cloud", EnabledIf: enabledIf, Definitions: []clusterv1.PatchDefinition{
				{Selector: clusterv1.PatchSelector{MatchResources: match}},
			},
		}}
		return class
	}
	const byVersion = `{{ semverCompare "<v1.33" .builtin.controlPlane.version }}`
	both := clusterv1.PatchSelectorMatch{
		ControlPlane:           new(true),
		MachineDeploymentClass: &clusterv1.PatchSelectorMatchMachineDeploymentClass{Names: []string{"*"}},
	}
	for name, test := range map[string]struct {
		class                 *clusterv1.ClusterClass
		controlPlane, workers bool
	}{
		"no class":             {},
		"without the version":  {class: patch(`{{ .on }}`, both)},
		"of everything":        {class: patch(byVersion, both), controlPlane: true, workers: true},
		"of the control plane": {class: patch(byVersion, clusterv1.PatchSelectorMatch{ControlPlane: new(true)}), controlPlane: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := Cluster{Reader: reader, Mapper: mapper}
			read := m.Settings(t.Context(), snapshot.Objects{
				Cluster: cluster, ControlPlane: controlPlane,
				MachineDeployments: []*clusterv1.MachineDeployment{md},
			}, test.class)
			uses := read.Uses
			if len(read.Unread) > 0 || len(uses) != 2 {
				t.Fatalf("%d settings, unread: %q", len(uses), read.Unread)
			}
			if !slices.Equal(read.Unverified, []string{"c-md"}) {
				t.Errorf("unverified: %q", read.Unverified)
			}
			got := map[string]bool{uses[0].Name: uses[0].Passing, uses[1].Name: uses[1].Passing}
			if got["c"] != test.controlPlane || got["a"] != test.workers {
				t.Errorf("got %v, want c %t and a %t", got, test.controlPlane, test.workers)
			}
		})
	}
}
