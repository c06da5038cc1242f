package machineset

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestForgedTemplateMarks: marks among the annotations of a template reach no Machine, so that no
// update in place begins that no plan has decided.
func TestForgedTemplateMarks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	existing(w)
	forged := map[string]string{
		clusterv1.UpdateInProgressAnnotation: "", clusterv1.PendingAcknowledgeMoveAnnotation: "",
		runtimev1.PendingHooksAnnotation: "UpdateMachine", v1alpha1.MovedFromAnnotation: "a/b/",
		v1alpha1.LastUpdateAnnotation: "{}", v1alpha1.UpdateProgressAnnotation: "{}",
	}
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
		for key, value := range forged {
			s.Spec.Template.Annotations = with(s.Spec.Template.Annotations, key, value)
		}
		s.Spec.Template.Annotations = with(s.Spec.Template.Annotations, "note", "2")
		*s.Spec.Replicas = 3
	})
	w.settle("a")
	for _, m := range w.machines() {
		for key := range forged {
			if value, ok := m.Annotations[key]; ok {
				t.Errorf("Machine %s has the annotation %s=%s of the template", m.Name, key, value)
			}
		}
		if m.Annotations["note"] != "2" {
			t.Errorf("Machine %s has the annotations %v", m.Name, m.Annotations)
		}
	}
}

// TestMoveToAnotherGroup: no Machine moves into a MachineSet of another MachineDeployment or
// Cluster, though both MachineSets are annotated for it.
func TestMoveToAnotherGroup(t *testing.T) {
	t.Parallel()
	owner := func(name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Name: name,
			UID: "own", Controller: new(true),
		}}
	}
	for name, tt := range map[string]struct {
		target func(*clusterv1.MachineSet)
		want   string
	}{
		"another MachineDeployment": {func(s *clusterv1.MachineSet) {
			s.OwnerReferences = owner("other")
			s.OwnerReferences[0].UID = "another"
		}, "which is of MachineDeployment other"},
		"another Cluster": {func(s *clusterv1.MachineSet) { s.Spec.ClusterName = "other" },
			"which is of Cluster other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			moves(w)
			edit(w, w.set("a"), func(s *clusterv1.MachineSet) { s.OwnerReferences = owner("own") })
			edit(w, w.set("b"), tt.target)
			if err := w.reconcile("a"); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			for _, m := range w.machines() {
				if !metav1.IsControlledBy(&m, w.set("a")) {
					t.Errorf("Machine %s has moved", m.Name)
				}
			}
		})
	}
}
