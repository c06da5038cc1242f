package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestReconcileRepairsOwnership loses the managed fields of a control plane object before a change: a run of its own repairs them, and the change
// comes with the next.
func TestReconcileRepairsOwnership(t *testing.T) {
	w := newWorld(t).running("v1.31.0")
	w.settle()
	object := w.Referenced(w.Cluster().Spec.ControlPlaneRef)
	lost := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"managedFields":[{}]}}`))
	if err := w.Inner.Patch(t.Context(), object, lost); err != nil {
		t.Fatal(err)
	}
	w.merge("Cluster", w.Key.Name, `{"spec":{"topology":{"controlPlane":{"replicas":5}}}}`)
	before := conditions.Get(w.Cluster(), clusterv1.ClusterTopologyReconciledCondition)

	w.Take()
	result, err := w.reconcile()
	if err != nil || result != (ctrl.Result{RequeueAfter: conflictRetry}) {
		t.Errorf("%+v, %v", result, err)
	}
	if diff := cmp.Diff([]string{"patch KubeadmControlPlane"}, w.Take()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, conditions.Get(w.Cluster(), clusterv1.ClusterTopologyReconciledCondition)); diff != "" {
		t.Errorf("the condition has changed:\n%s", diff)
	}
	w.settle()
	object = w.Referenced(w.Cluster().Spec.ControlPlaneRef)
	for _, owner := range object.GetManagedFields() {
		if owner.Manager == "before-first-apply" {
			t.Errorf("there is another owner: %v", owner)
		}
	}
	if spec, ok := object.Object["spec"].(map[string]any); !ok || spec["replicas"] != int64(5) {
		t.Errorf("spec %v", object.Object["spec"])
	}
}
