package update

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// upgraded is a machine of a MachineSet that an annotation has brought to a kubelet version.
func upgraded(name, set, kubelet string) *clusterv1.Machine {
	m := machine(name, set, from)
	m.Annotations = map[string]string{v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeRelease: "revision=7"}
	m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: kubelet}
	return m
}

// TestAlreadyThere raises the version of a group whose machines were all upgraded by annotations: no updater is asked, and none runs.
func TestAlreadyThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(nil), deployment(), machineSet("old", from), upgraded("a", "old", to), upgraded("b", "old", to))
	s := w.updater("kubelet", 0, "{}")
	w.node("a", to)
	coverage, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to))
	if err != nil || !strings.Contains(string(coverage.Patches.Machine.Data), to) || !strings.Contains(coverage.Message, "nothing has to be done") {
		t.Fatalf("coverage %+v, error %v", coverage, err)
	}
	moved := w.machine("a")
	moved.OwnerReferences = machine("a", "new", to).OwnerReferences
	moved.Spec.Version = to
	if err := w.client.Update(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	empty := ""
	w.annotate("a", clusterv1.UpdateInProgressAnnotation, &empty)
	if reply, err := w.update("a"); err != nil || !reply.Done || len(s.updates) > 0 {
		t.Errorf("reply %+v, error %v, calls %v", reply, err, s.updates)
	}
}

// TestNotAllThere asks updaters as usual where one machine is not at the version, or was not brought there by an annotation.
func TestNotAllThere(t *testing.T) {
	t.Parallel()
	unmarked := upgraded("b", "old", to)
	unmarked.Annotations = nil
	unknown := upgraded("b", "old", to)
	unknown.Status.NodeInfo = nil
	for name, other := range map[string]*clusterv1.Machine{"older": upgraded("b", "old", from), "unmarked": unmarked, "unknown": unknown} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, external(nil), deployment(), machineSet("old", from), upgraded("a", "old", to), other)
			w.updater("kubelet", 0, "{}")
			if _, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to)); err == nil {
				t.Error("the version counts as covered")
			}
		})
	}
}

// TestWaitsForAnnotatedUpgrade begins no update of a machine that an annotation has upgraded at the moment, and goes on after it.
func TestWaitsForAnnotatedUpgrade(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	for _, record := range []string{`{"option":"revision=7","progress":{"id":"x","phase":"Updating","steps":[{"updater":"k8sd"}],"operation":"x-1"}}`, `{"opt`} {
		w.annotate("a", v1alpha1.InPlaceUpgradeAnnotation, &record)
		reply, err := w.update("a")
		if err != nil || reply.Done || reply.RetryAfter == 0 || !strings.Contains(reply.Message, "not started") || len(s.updates) > 0 || w.progress("a") != nil {
			t.Errorf("%s: reply %+v, error %v, calls %v", record, reply, err, s.updates)
		}
	}
	refused := `{"option":"revision=x","reason":"BadOption","message":"no"}`
	w.annotate("a", v1alpha1.InPlaceUpgradeAnnotation, &refused)
	if reply, err := w.update("a"); err != nil || len(s.updates) == 0 {
		t.Errorf("reply %+v, error %v, calls %v", reply, err, s.updates)
	}
}
