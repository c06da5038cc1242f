package objects

import (
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// TestClusterEvents: which events of a Cluster wake its groups.
func TestClusterEvents(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	before := &clusterv1.Cluster{}
	before.Labels = map[string]string{"stage": "test"}
	for name, tt := range map[string]struct {
		change func(*clusterv1.Cluster)
		// stock is what passes without policies, want what passes with them.
		stock, want bool
	}{
		"nothing":        {func(*clusterv1.Cluster) {}, false, false},
		"a label":        {func(c *clusterv1.Cluster) { c.Labels = map[string]string{"stage": "live"} }, false, true},
		"all labels":     {func(c *clusterv1.Cluster) { c.Labels = nil }, false, true},
		"an annotation":  {func(c *clusterv1.Cluster) { c.Annotations = map[string]string{"a": "b"} }, false, false},
		"a pause begins": {func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }, true, true},
	} {
		after := before.DeepCopy()
		after.ResourceVersion = "2"
		tt.change(after)
		update := event.UpdateEvent{ObjectOld: before, ObjectNew: after}
		if got := ClusterEvents(scheme, logr.Discard(), false).Update(update); got != tt.stock {
			t.Errorf("%s without policies: passes %t, want %t", name, got, tt.stock)
		}
		if got := ClusterEvents(scheme, logr.Discard(), true).Update(update); got != tt.want {
			t.Errorf("%s: passes %t, want %t", name, got, tt.want)
		}
	}
	stock := predicates.ClusterPausedTransitions(scheme, logr.Discard())
	p := ClusterEvents(scheme, logr.Discard(), true)
	for _, paused := range []bool{false, true} {
		c := &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: &paused}}
		if p.Create(event.CreateEvent{Object: c}) != stock.Create(event.CreateEvent{Object: c}) ||
			p.Delete(event.DeleteEvent{Object: c}) != stock.Delete(event.DeleteEvent{Object: c}) {
			t.Errorf("paused %t: additions or deletions pass in another way than in Cluster API", paused)
		}
	}
}
