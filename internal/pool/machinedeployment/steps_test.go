package machinedeployment

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestIsStep: which changes of a Machine cause a reconcile of its MachineDeployment.
func TestIsStep(t *testing.T) {
	t.Parallel()
	annotate := func(key string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) { m.Annotations[key] = "x" }
	}
	label := func(key string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) { m.Labels[key] = "other" }
	}
	for name, tt := range map[string]struct {
		change func(*clusterv1.Machine)
		want   bool
	}{
		"nothing":      {func(*clusterv1.Machine) {}, false},
		"has moved":    {annotate(clusterv1.PendingAcknowledgeMoveAnnotation), true},
		"has failed":   {annotate(v1alpha1.UpdateFailedAnnotation), true},
		"is updating":  {annotate(clusterv1.UpdateInProgressAnnotation), false},
		"version":      {func(m *clusterv1.Machine) { m.Spec.Version = "v1.34.0" }, true},
		"phase":        {func(m *clusterv1.Machine) { m.Status.Phase = "Running" }, false},
		"label":        {label("rack"), true},
		"lost a label": {func(m *clusterv1.Machine) { delete(m.Labels, "rack") }, true},
		"MachineSet": {func(m *clusterv1.Machine) {
			label(clusterv1.MachineSetNameLabel)(m)
			label(clusterv1.MachineDeploymentUniqueLabel)(m)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := &clusterv1.Machine{}
			before.Annotations = map[string]string{}
			before.Labels = map[string]string{"rack": "a", clusterv1.MachineSetNameLabel: "s"}
			after := before.DeepCopy()
			tt.change(after)
			if got := isStep(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tt.want {
				t.Errorf("it passes: %t", got)
			}
		})
	}
}
