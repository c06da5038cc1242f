package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// TestUpdating tells machines that Cluster API updates from others that are held: they are in flight, so that no other one begins beside them.
func TestUpdating(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t, withoutCanary(inPlaceOnly(2)))
	w.addGroup(deploymentKind, "md", "idle", "moving", "paused", "updating")
	w.annotate(w.machine("moving"), map[string]any{clusterv1.PendingAcknowledgeMoveAnnotation: "", clusterv1.PausedAnnotation: ""})
	w.annotate(w.machine("paused"), map[string]any{clusterv1.PausedAnnotation: ""})
	w.annotate(w.machine("updating"), map[string]any{clusterv1.UpdateInProgressAnnotation: ""})
	r, err := w.engine.readGroup(t.Context(), deploymentKind, keyNamed("md"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, m := range r.facts.Members {
		got[m.Name] = m.Updating
	}
	if diff := cmp.Diff(map[string]bool{"idle": false, "moving": true, "paused": false, "updating": true}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	w.askGroup(deploymentKind, "md", toVersion)
	for range 3 {
		w.step()
	}
	if w.marks("idle") != (request.Marks{}) {
		t.Errorf("one began beside those that Cluster API updates: %+v", w.marks("idle"))
	}
	w.annotate(w.machine("moving"), map[string]any{clusterv1.PendingAcknowledgeMoveAnnotation: nil})
	w.until("there is room", func() bool { return w.marks("idle").To == toVersion })
}
