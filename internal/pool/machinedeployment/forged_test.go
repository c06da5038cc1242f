package machinedeployment

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestForgedMarks: marks of moves on a MachineDeployment reach no MachineSet. Otherwise Machines
// would move, in place of being replaced, to a template that no updater covers.
func TestForgedMarks(t *testing.T) {
	t.Parallel()
	w := scenario{begin: func(*world) {}, change: func(w *world) {
		names := ""
		for _, set := range w.sets() {
			names = set.Name
		}
		w.edit(func(md *clusterv1.MachineDeployment) {
			if md.Annotations == nil {
				md.Annotations = map[string]string{}
			}
			md.Annotations["note"] = "1"
			md.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation] = names
			md.Annotations[clusterv1.AcknowledgedMoveAnnotation] = "m"
			md.Annotations[v1alpha1.ReturnMachinesAnnotation] = "m"
			md.Annotations[v1alpha1.UpdateDecisionsAnnotation] = "[]"
			md.Annotations[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation] = names
		})
		w.mustReconcile()
	}}.run(t)
	for _, set := range w.sets() {
		for _, key := range []string{
			clusterv1.MachineSetMoveMachinesToMachineSetAnnotation, clusterv1.AcknowledgedMoveAnnotation,
			clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation,
			v1alpha1.ReturnMachinesAnnotation, v1alpha1.UpdateDecisionsAnnotation,
		} {
			if value, ok := set.Annotations[key]; ok {
				t.Errorf("MachineSet %s has the annotation %s=%s of the MachineDeployment", set.Name, key,
					value)
			}
		}
		if set.Annotations["note"] != "1" {
			t.Errorf("MachineSet %s has the annotations %v", set.Name, set.Annotations)
		}
	}
	w.upgrade()
	w.settle()
	if w.moved > 0 {
		t.Errorf("%d Machines moved, and no updater covers the change", w.moved)
	}
}
