package inplace_test

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/pool"
)

// TestFailedUpdate: the limits of a rollout count an update as failed if its record says so, and
// not because a call has failed that the next one repeats. Without a record that they know, Cluster
// API's reason counts.
func TestFailedUpdate(t *testing.T) {
	t.Parallel()
	record := func(phase inplace.Phase) string {
		text, err := json.Marshal(inplace.Progress{ID: "u1", Phase: phase})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, tt := range map[string]struct {
		record string
		// failed is the answer after a call that failed, running the one after a call that did not.
		failed, running bool
	}{
		"draining":             {record: record(inplace.Draining)},
		"updating":             {record: record(inplace.Updating)},
		"backing off":          {record: record(inplace.BackingOff)},
		"verifying":            {record: record(inplace.Verifying)},
		"soaking":              {record: record(inplace.Soaking)},
		"failed":               {record: record(inplace.Failed), failed: true, running: true},
		"no record":            {failed: true},
		"an unreadable record": {record: "?", failed: true},
		"a newer record":       {record: record("New"), failed: true},
	} {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			clusterv1.UpdateInProgressAnnotation: "",
		}}}
		if tt.record != "" {
			m.Annotations[v1alpha1.UpdateProgressAnnotation] = tt.record
		}
		for reason, want := range map[string]bool{
			clusterv1.MachineInPlaceUpdateFailedReason: tt.failed,
			clusterv1.MachineInPlaceUpdatingReason:     tt.running,
		} {
			m.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionTrue, Reason: reason,
			}}
			if got := pool.HasFailedUpdate(m); got != want {
				t.Errorf("%s, reason %s: failed is %v, want %v", name, reason, got, want)
			}
		}
		delete(m.Annotations, clusterv1.UpdateInProgressAnnotation)
		if pool.HasFailedUpdate(m) {
			t.Errorf("%s: the update is over, and has failed", name)
		}
	}
}
