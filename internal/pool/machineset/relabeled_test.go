package machineset

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// TestRelabeled: Machines of a kept group stay Machines of their MachineSet if somebody changes the labels by which it
// selects them, or its selector. They get its labels, and none is created in their place.
func TestRelabeled(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world){
		"the label of a Machine": func(w *world) {
			m := w.machines()[0]
			edit(w, &m, func(m *clusterv1.Machine) { m.Labels[clusterv1.MachineDeploymentUniqueLabel] = "other" })
		},
		"all labels of a Machine but that of the Cluster": func(w *world) {
			m := w.machines()[0]
			edit(w, &m, func(m *clusterv1.Machine) {
				m.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"}
			})
		},
		"the label of the MachineSet that names its MachineDeployment": func(w *world) {
			edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
				delete(s.Labels, clusterv1.MachineDeploymentNameLabel)
				*s.Spec.Replicas = 3 // An earlier plan.
			})
		},
		"the selector": func(w *world) {
			edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
				s.Spec.Selector.MatchLabels = with(s.Spec.Selector.MatchLabels, "l", "2")
				s.Spec.Template.Labels = with(s.Spec.Template.Labels, "l", "2")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.policy = policy.Policy{Guarded: true}
			existing(w)
			w.belongs()
			md := get(w, "d", &clusterv1.MachineDeployment{})
			edit(w, md, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(2)) })
			edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
				s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(md, capi.MachineDeploymentKind)}
			})
			w.settle("a")
			change(w)
			writes := w.settle("a")
			if n := len(w.machines()); n != 2 || slices.Contains(writes, "delete Machine") {
				t.Errorf("there are %d Machines, and the writes are %v", n, writes)
			}
			s := w.set("a")
			for _, m := range w.machines() {
				if !objects.Selects(s, m.Labels) {
					t.Errorf("Machine %s has the labels %v", m.Name, m.Labels)
				}
			}
			if got := *s.Status.Replicas; got != 2 {
				t.Errorf("the status has %d replicas", got)
			}
		})
	}
}

// TestPolicyWithoutLabel: the policy counts although somebody has removed the label of the MachineSet
// that names its MachineDeployment.
func TestPolicyWithoutLabel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keeps(w)
	md := get(w, "d", &clusterv1.MachineDeployment{})
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
		s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(md, capi.MachineDeploymentKind)}
		delete(s.Labels, clusterv1.MachineDeploymentNameLabel)
	})
	m := w.machines()[0]
	editStatus(w, &m, func(m *clusterv1.Machine) {
		for _, kind := range []string{
			clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition,
		} {
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionFalse, Reason: "R", LastTransitionTime: metav1.NewTime(start),
			})
		}
	})
	edit(w, md, func(md *clusterv1.MachineDeployment) {
		md.Annotations = map[string]string{clusterv1.RevisionAnnotation: "2"}
	})
	w.Take()
	if writes := w.settle("a"); slices.Contains(writes, "delete Machine") {
		t.Errorf("the writes are %v", writes)
	}
}
