package engine

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestUnblock checks that a change that was taken back leaves no condition: no hook is asked then.
func TestUnblock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(nil), deployment(), machineSet("old", from))
	w.updater("nothing", 0, "{}").err = errors.New("off")
	key := types.NamespacedName{Namespace: namespace, Name: "md"}
	gvk := clusterv1.GroupVersion.WithKind("MachineDeployment")
	blocked := func() bool {
		md := &clusterv1.MachineDeployment{}
		if err := w.client.Get(t.Context(), key, md); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(md.Status.Conditions, v1alpha1.UpdateBlockedCondition) != nil
	}
	if _, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to)); err == nil {
		t.Fatal("it is covered")
	}
	if !blocked() {
		t.Fatal("there is no condition")
	}
	w.restart()
	// A process of another shard finds nothing.
	w.engine.WatchFilter = "another"
	for _, found := range []int{0, 1} {
		if err := w.engine.FindBlocked(t.Context(), []schema.GroupVersionKind{gvk}); err != nil || len(w.engine.blocked.list()) != found {
			t.Fatalf("with the filter %q: %v, %v", w.engine.WatchFilter, w.engine.blocked.list(), err)
		}
		w.engine.WatchFilter = ""
	}
	for _, step := range []struct {
		upToDate int32
		blocked  bool
	}{{upToDate: 1, blocked: true}, {upToDate: 2, blocked: false}} {
		md := &clusterv1.MachineDeployment{}
		if err := w.client.Get(t.Context(), key, md); err != nil {
			t.Fatal(err)
		}
		two := int32(2)
		md.Spec.Replicas = &two
		if err := w.client.Update(t.Context(), md); err != nil {
			t.Fatal(err)
		}
		md.Status.Replicas, md.Status.UpToDateReplicas, md.Status.ObservedGeneration = &two, &step.upToDate, md.Generation
		if md.Status.Conditions == nil {
			md.Status.Conditions = []metav1.Condition{}
		}
		if err := w.client.Status().Update(t.Context(), md); err != nil {
			t.Fatal(err)
		}
		if err := w.engine.Unblock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := blocked(); got != step.blocked {
			t.Errorf("with %d of 2 up to date: blocked %v", step.upToDate, got)
		}
	}
	w.engine.blocked.add(blockedObject{kind: gvk, key: types.NamespacedName{Namespace: namespace, Name: "gone"}})
	if err := w.engine.Unblock(t.Context()); err != nil || len(w.engine.blocked.list()) > 0 {
		t.Errorf("an object that is gone: %v, left %v", err, w.engine.blocked.list())
	}
}
