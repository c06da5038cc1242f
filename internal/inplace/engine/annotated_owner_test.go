package engine

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestOwnerOfControlPlaneMachines reads the control plane object in the preferred version of its kind, whatever version the Machine names, and takes what a
// topology owns by the label of either.
func TestOwnerOfControlPlaneMachines(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		machine, owner bool
		want           string
	}{
		"neither":     {false, false, ""},
		"the Machine": {true, false, "c"},
		"the owner":   {false, true, "c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster()
			c.Spec.Topology.ClassRef.Name = "class"
			w := newUpgradeWorld(t, c)
			label := map[string]string{clusterv1.ClusterTopologyOwnedLabel: ""}
			cp := newGroup(rke2Kind, "cp", 1)
			if tt.owner {
				cp.SetLabels(label)
			}
			w.put(cp)
			m := newMachine("m", "cp")
			if tt.machine {
				maps.Copy(m.Labels, label)
			}
			m.OwnerReferences[0].APIVersion, m.OwnerReferences[0].Kind = rke2Kind.Group+"/v1alpha1", rke2Kind.Kind
			w.add(m)
			var read []schema.GroupVersionKind
			w.onRead = func(o client.Object) {
				if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "CustomResourceDefinition" {
					t.Errorf("a %T of kind %q is read from the cache, which may never sync", o, kind)
				}
			}
			w.onLiveRead = func(o client.Object) { read = append(read, o.GetObjectKind().GroupVersionKind()) }
			r, err := w.engine.readMachine(t.Context(), keyNamed("m"))
			if err != nil {
				t.Fatal(err)
			}
			if r.facts.Topology.Cluster != tt.want {
				t.Errorf("the topology is %q, want %q", r.facts.Topology.Cluster, tt.want)
			}
			if diff := cmp.Diff([]schema.GroupVersionKind{rke2Kind}, slices.DeleteFunc(read, schema.GroupVersionKind.Empty)); diff != "" {
				t.Errorf("read from the API server (-want +got):\n%s", diff)
			}
		})
	}
}
