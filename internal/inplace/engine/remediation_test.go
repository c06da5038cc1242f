package engine

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// TestRemediationThatWasAskedFor: an update does not begin on a Machine that is about to be
// replaced, says so, and begins once that is over.
func TestRemediationThatWasAskedFor(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	empty := ""
	w.annotate("a", clusterv1.RemediateMachineAnnotation, &empty)
	s.answers(inplace.Finishes, "")
	w.node("a", to)
	w.until("a", "not started: the machine is marked for remediation:  it has the annotation "+clusterv1.RemediateMachineAnnotation)
	if w.has("a", v1alpha1.UpdateProgressAnnotation) || w.has("a", clusterv1.MachineSkipRemediationAnnotation) {
		t.Errorf("it has begun: %v", w.machine("a").Annotations)
	}
	w.annotate("a", clusterv1.RemediateMachineAnnotation, nil)
	w.until("a", "updated in place")
}
