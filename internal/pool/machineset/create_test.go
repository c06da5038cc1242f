package machineset

import (
	"fmt"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestTakenNames: a new Machine gets no name that a Machine of its MachineSet has. If all names are
// taken, none is created, and the error names the field that leaves so few.
func TestTakenNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calls := 0
	w.r.random = func(int) string { calls++; return fmt.Sprintf("%05d", calls/3) }
	w.Put(set("a", "a", 3))
	w.settle("a")
	if n := len(w.machines()); n != 3 {
		t.Fatalf("%d Machines, want 3", n)
	}
	w.r.random = func(int) string { return "00001" }
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) { s.Spec.Replicas = new(int32(4)) })
	err := w.reconcile("a")
	if err == nil || !strings.Contains(err.Error(), "machineNaming") || len(w.machines()) != 3 {
		t.Errorf("%d Machines, error %v", len(w.machines()), err)
	}
}

// TestNoUpdateOfAMachineInDeletion: the update of a Machine that is being deleted does not begin.
// Its objects may be gone, and the MachineSet would fail with each reconcile.
func TestNoUpdateOfAMachineInDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	existing(w)
	m := w.machines()[0]
	edit(w, &m, func(m *clusterv1.Machine) {
		m.Annotations = with(m.Annotations, clusterv1.UpdateInProgressAnnotation, "")
	})
	if err := w.Inner.Delete(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	w.Take()
	for _, write := range w.settle("a") {
		if strings.HasSuffix(write, " TestMachine") || strings.HasSuffix(write, " TestConfig") {
			t.Errorf("it writes: %s", write)
		}
	}
}
