package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// TestFault5_CrashAnywhere has the process die at every effect, once before and once after it. Every time the machines come to the same end, and the updater
// has done its work once for each.
func TestFault5_CrashAnywhere(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		w := newUpgradeWorld(t)
		kubelet, _ := w.register()
		w.add(newMachine("cp-0", "kcp"), newMachine("cp-1", "kcp"))
		w.nodes.SetDrain(inCluster, "cp-0", 1)
		w.tick = time.Minute
		w.ask("cp-0", toVersion)
		w.ask("cp-1", toVersion)
		w.faults.at, w.faults.passed = at, 0
		w.untilDone("cp-0", toVersion)
		w.untilDone("cp-1", toVersion)
		if w.faults.passed < at {
			t.Logf("died at %d points", at-1)
			if at < 40 {
				t.Error("these are too few")
			}
			return
		}
		checkUpgraded(t, w, kubelet)
		if t.Failed() {
			t.Fatalf("died %s (point %d)", w.faults.what, at)
		}
	}
}

func checkUpgraded(t *testing.T, w *upgradeWorld, u *installer) {
	t.Helper()
	if diff := cmp.Diff(map[string]int{"cp-0": 1, "cp-1": 1}, work(u)); diff != "" || u.most != 1 {
		t.Errorf("%d at once; work (-want +got):\n%s", u.most, diff)
	}
	for _, name := range []string{"cp-0", "cp-1"} {
		m := w.machine(name)
		if diff := cmp.Diff(upgradedAnnotations, m.Annotations); diff != "" {
			t.Errorf("annotations of %s (-want +got):\n%s", name, diff)
		}
		if c := conditionOf(m.Status.Conditions); c != nil {
			t.Errorf("the condition of %s is left: %+v", name, c)
		}
		if node := w.nodes.Node(t.Context(), inCluster, name); node.Unschedulable {
			t.Errorf("the node of %s is left cordoned", name)
		}
		// An Event that was not emitted before the process died is lost, and none is emitted twice.
		said := w.said(name)
		for _, reason := range []string{"InProgress", "Done"} {
			if n := count(said, reason); n > 1 {
				t.Errorf("%s of %s was said %d times", reason, name, n)
			}
		}
	}
	if got := w.lockHolder(); got != "" {
		t.Errorf("the lock is left: %s", got)
	}
}

func count(list []string, item string) int {
	return len(slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s != item }))
}

// TestFault13_CancelAnywhere has a person take the annotation away at every moment of an upgrade, and the process die at every effect after it. Either nothing
// was begun, or what was begun is followed to its end; nothing is left behind in any case.
func TestFault13_CancelAnywhere(t *testing.T) {
	t.Parallel()
	for steps := range 10 {
		for at := 0; ; at++ {
			w := newUpgradeWorld(t)
			kubelet, _ := w.register()
			w.add(newMachine("cp-0", "kcp"))
			w.nodes.SetDrain(inCluster, "cp-0", 2)
			w.tick = 25 * time.Second
			w.ask("cp-0", toVersion)
			for range steps {
				w.step()
			}
			w.annotate(w.machine("cp-0"), map[string]any{keys.To: nil})
			w.faults.at, w.faults.passed = at, 0
			for range 8 {
				w.step()
			}
			checkCancelled(t, w, kubelet)
			if t.Failed() {
				t.Fatalf("cancelled after %d steps, died %s (point %d)", steps, w.faults.what, at)
			}
			if w.faults.passed < at {
				break
			}
		}
	}
}

func checkCancelled(t *testing.T, w *upgradeWorld, u *installer) {
	t.Helper()
	m := w.machine("cp-0")
	if _, left := m.Annotations[v1alpha1.InPlaceUpgradeAnnotation]; left || conditionOf(m.Status.Conditions) != nil || w.lockHolder() != "" {
		t.Errorf("left are %v, condition %+v, lock %q", m.Annotations, conditionOf(m.Status.Conditions), w.lockHolder())
	}
	if node := w.nodes.Node(t.Context(), inCluster, "cp-0"); node.Unschedulable {
		t.Error("the node is left cordoned")
	}
	want := request.Marks{}
	if work(u)["cp-0"] > 0 {
		want = request.Marks{Status: request.Done, Release: toVersion}
	}
	if diff := cmp.Diff(want, w.marks("cp-0")); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
	for _, reason := range []string{"Cancelled", "Done"} {
		if n := count(w.said("cp-0"), reason); n > 1 {
			t.Errorf("%s was said %d times", reason, n)
		}
	}
}
