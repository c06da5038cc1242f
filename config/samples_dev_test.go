package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
)

// readOne decodes a file of one document strictly.
func readOne[T any](t *testing.T, name string) T {
	t.Helper()
	items := readSamples[T](t, filepath.Join("samples", "dev", name))
	if len(items) != 1 {
		t.Fatalf("%s has %d documents", name, len(items))
	}
	return items[0]
}

// TestDevSamples looks that the objects fit each other, and what Cluster API needs to update machines in place.
func TestDevSamples(t *testing.T) {
	t.Parallel()
	cluster, graph := readOne[clusterv1.Cluster](t, "cluster.yaml"), readOne[v1alpha1.UpgradeGraph](t, "graph.yaml")
	policies := readSamples[v1alpha1.UpdatePolicy](t, "samples/dev/policy.yaml")
	content, err := os.ReadFile("samples/dev/class.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var class clusterv1.ClusterClass
	first, _, _ := strings.Cut(string(content), "\n---\n")
	if err := yaml.UnmarshalStrict([]byte(first), &class); err != nil {
		t.Fatal(err)
	}
	topology := cluster.Spec.Topology
	if topology.ClassRef.Name != class.Name || graph.Spec.Classes[0].Name != class.Name {
		t.Errorf("the class is %q, that of the Cluster %q, that of the graph %v", class.Name, topology.ClassRef.Name, graph.Spec.Classes)
	}
	if !slices.Contains(graph.Spec.Versions, v1alpha1.Version(topology.Version)) {
		t.Errorf("the graph does not have %s", topology.Version)
	}
	groups := []string{""} // the control plane
	for _, md := range topology.Workers.MachineDeployments {
		groups = append(groups, md.Name)
		rolling := md.Rollout.Strategy.RollingUpdate
		if rolling.MaxSurge == nil || rolling.MaxSurge.IntValue() != 0 || rolling.MaxUnavailable == nil || rolling.MaxUnavailable.IntValue() < 1 {
			t.Errorf("MachineDeployment %s surges: %+v", md.Name, rolling)
		}
	}
	if len(groups) != 3 || topology.ControlPlane.Replicas == nil || *topology.ControlPlane.Replicas < 3 {
		t.Errorf("the Cluster has the groups %q, and %v machines in its control plane", groups, topology.ControlPlane.Replicas)
	}
	for _, group := range groups {
		got, err := policy.CompileAll(policies).Select(policy.Group{Namespace: cluster.Namespace, Cluster: cluster.Name, ControlPlane: group == "", Topology: group})
		if err != nil || got.Name != policies[0].Name || !got.Guarded {
			t.Errorf("group %q: policy %q, guarded %t, %v", group, got.Name, got.Guarded, err)
		}
	}
}
