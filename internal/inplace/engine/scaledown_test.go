package engine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// TestScaleDownCancelledAnywhere takes the annotation away at every moment of a worker's upgrade,
// and has the process die at every effect after it. The cluster autoscaler may remove the node in
// the end, and no record is left.
func TestScaleDownCancelledAnywhere(t *testing.T) {
	t.Parallel()
	marked := 0
	for steps := range 10 {
		for at := 0; ; at++ {
			w := newUpgradeWorld(t)
			w.register()
			w.add(newMachine("a", ""))
			w.nodes.SetDrain(inCluster, "a", 2)
			w.tick = 25 * time.Second
			w.ask("a", toVersion)
			for range steps {
				w.step()
			}
			if w.nodes.Node(t.Context(), inCluster, "a").ScaleDown == inplace.ScaleDownByUs {
				marked++
			}
			w.annotate(w.machine("a"), map[string]any{keys.To: nil})
			w.faults.at, w.faults.passed = at, 0
			for range 8 {
				w.step()
			}
			_, left := w.machine("a").Annotations[v1alpha1.InPlaceUpgradeAnnotation]
			node := w.nodes.Node(t.Context(), inCluster, "a")
			if left || node.ScaleDown != inplace.ScaleDownAllowed || node.Unschedulable {
				t.Fatalf("cancelled after %d steps, died %s (point %d): record left: %t, node %+v",
					steps, w.faults.what, at, left, node)
			}
			if w.faults.passed < at {
				break
			}
		}
	}
	if marked == 0 {
		t.Error("no node was ever marked")
	}
}

// TestControlPlanesAreNotMarked: the cluster autoscaler removes no node of a control plane.
func TestControlPlanesAreNotMarked(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	w.register()
	w.add(newMachine("cp-0", "kcp"))
	w.ask("cp-0", toVersion)
	w.untilDone("cp-0", toVersion)
	if n := w.nodes.Calls()[porttest.DisableScaleDownMethod]; n > 0 {
		t.Errorf("%d calls", n)
	}
}

// TestScaleDownAbandoned: an update by the hooks that a person gives up lets the autoscaler remove
// the node. A node that a person has marked stays so.
func TestScaleDownAbandoned(t *testing.T) {
	t.Parallel()
	for before, after := range map[inplace.ScaleDown]inplace.ScaleDown{
		inplace.ScaleDownAllowed:  inplace.ScaleDownAllowed,
		inplace.ScaleDownByUs:     inplace.ScaleDownAllowed,
		inplace.ScaleDownByOthers: inplace.ScaleDownByOthers,
	} {
		w, s := moving(t, external(func(p *v1alpha1.UpdatePolicySpec) { p.MaxAttempts = 1 }))
		w.nodes.Edit(inCluster, "a", func(n *inplace.Node) { n.ScaleDown = before })
		s.answers(inplace.Fails, "no disk")
		if _, err := w.update("a"); err == nil {
			t.Fatal("a final failure is not refused")
		}
		during := w.nodes.Node(t.Context(), inCluster, "a").ScaleDown
		if during == inplace.ScaleDownAllowed || before == inplace.ScaleDownByOthers && during != before {
			t.Errorf("before %d, during the update %d", before, during)
		}
		m := w.machine("a")
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
			Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineNotUpToDateReason, LastTransitionTime: metav1.NewTime(w.now),
		})
		if err := w.client.Status().Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		w.annotate("a", v1alpha1.UpdateAbandonAnnotation, new(string))
		if _, err := w.update("a"); err != nil {
			t.Fatal(err)
		}
		if got := w.nodes.Node(t.Context(), inCluster, "a").ScaleDown; got != after || w.has("a", v1alpha1.UpdateProgressAnnotation) {
			t.Errorf("before %d, abandoned %d", before, got)
		}
	}
}

// TestScaleDownOfQueued: the autoscaler keeps the node of a Machine that waits for its turn, and gets it back if the
// Machine does not wait any more, whatever process finds that.
func TestScaleDownOfQueued(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answers(inplace.InProgress, "at work")
	for _, name := range []string{"a", "b"} {
		if _, err := w.update(name); err != nil {
			t.Fatal(err)
		}
	}
	protected := func() bool {
		return w.nodes.Node(t.Context(), inCluster, "b").ScaleDown == inplace.ScaleDownByUs
	}
	sweep := func() {
		t.Helper()
		if err := w.engine.SweepMachines(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if sweep(); !protected() || w.has("b", v1alpha1.UpdateProgressAnnotation) {
		t.Fatal("the autoscaler may remove a node that waits")
	}
	w.annotate("b", clusterv1.UpdateInProgressAnnotation, nil)
	w.restart()
	if sweep(); protected() || w.has("b", v1alpha1.ScaleDownDisabledAnnotation) {
		t.Error("a node that does not wait any more is kept from the autoscaler")
	}

	// One that begins has a record instead, and its end removes the mark.
	w.annotate("b", clusterv1.UpdateInProgressAnnotation, new(string))
	if _, err := w.update("b"); err != nil || !protected() {
		t.Fatalf("it waits again: %v", err)
	}
	s.answers(inplace.Finishes, "")
	w.node("a", to)
	w.node("b", to)
	for _, name := range []string{"a", "b"} {
		if reply, err := w.update(name); err != nil || !reply.Done {
			t.Errorf("%s: reply %+v, error %v", name, reply, err)
		}
	}
	if protected() || w.has("b", v1alpha1.ScaleDownDisabledAnnotation) {
		t.Error("a node is kept from the autoscaler after its update")
	}
}
