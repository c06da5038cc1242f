package engine

import (
	"testing"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// TestBeginEndsReturns: from the write that begins an update on, no revert takes the Machine back.
func TestBeginEndsReturns(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answers(inplace.InProgress, "at work")
	proof := "old/new/00000000"
	w.annotate("a", v1alpha1.MovedFromAnnotation, &proof)
	w.until("a", "at work")
	if w.has("a", v1alpha1.MovedFromAnnotation) || !w.has("a", v1alpha1.UpdateProgressAnnotation) {
		t.Errorf("the update has begun, and the annotations are %v", w.machine("a").Annotations)
	}
}

// TestDoneEndsReturns: an update that is done without a begin ends the time for a return before
// Cluster API learns that it is done.
func TestDoneEndsReturns(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	proof, last := "old/new/00000000", `{"id":"u1","target":"new","to":"`+to+`"}`
	w.annotate("a", v1alpha1.MovedFromAnnotation, &proof)
	w.annotate("a", v1alpha1.LastUpdateAnnotation, &last)
	reply, err := w.update("a")
	if err != nil || !reply.Done || len(s.updates) > 0 || w.has("a", v1alpha1.MovedFromAnnotation) {
		t.Errorf("%+v, %v; %d calls; the annotations are %v", reply, err, len(s.updates), w.machine("a").Annotations)
	}
}
