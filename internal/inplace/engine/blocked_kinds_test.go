package engine

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
)

// TestBlockedKinds holds on which kinds of groups a condition says that an update is blocked. The
// list of another provider's kind may have no keys, so that a condition would remove the provider's own;
// there an Event says so.
func TestBlockedKinds(t *testing.T) {
	t.Parallel()
	controlPlaneOf := func(kind string) schema.GroupVersionKind {
		return kubeadmControlPlaneKind.GroupVersion().WithKind(kind)
	}
	for _, tt := range []struct {
		kind   schema.GroupVersionKind
		writes int64
	}{
		{clusterv1.GroupVersion.WithKind("MachineDeployment"), 1},
		{clusterv1.GroupVersion.WithKind("MachineSet"), 1},
		{controlPlaneOf("KubeadmControlPlane"), 1},
		{controlPlaneOf("RKE2ControlPlane"), 0},
		{controlPlaneOf("CK8sControlPlane"), 0},
	} {
		t.Run(tt.kind.Kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, external(nil))
			object := capi.MetadataOf(tt.kind)
			object.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "group", UID: "group"}
			o := owner{object: object}
			subject := machine("a", "new", to)
			why := refused(v1alpha1.UpdateFailedReason, "it failed")
			w.engine.reportBlocked(t.Context(), o, subject, why)
			w.engine.reportUnblocked(t.Context(), o, subject)
			if got := w.writes.Load(); got != 2*tt.writes {
				t.Errorf("%d writes of conditions, want %d", got, 2*tt.writes)
			}
			if len(w.events.Events) != 1 {
				t.Errorf("%d Events, want 1", len(w.events.Events))
			}
		})
	}
}
