package machineset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// keeps has the scenarios of moves in a group whose machines are kept, and for whose updates the
// engine in Windlass has decided.
func keeps(w *world) {
	w.policy = policy.Policy{Guarded: true}
	existing(w)
	w.belongs()
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
		s.Annotations = with(s.Annotations, v1alpha1.UpdateDecisionsAnnotation, "[]")
	})
	target := set("b", "b", 0)
	target.Labels = with(target.Labels, clusterv1.MachineDeploymentNameLabel, "d")
	target.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation] = "a"
	w.Put(target)
	w.template("b")
	w.settle("b")
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
		*s.Spec.Replicas = 1
		s.Annotations = with(s.Annotations, clusterv1.MachineSetMoveMachinesToMachineSetAnnotation, "b")
	})
}

// template gives the MachineDeployment the template of a MachineSet.
func (w *world) template(of string) {
	w.t.Helper()
	edit(w, get(w, "d", &clusterv1.MachineDeployment{}), func(md *clusterv1.MachineDeployment) {
		md.Spec.Template = w.set(of).Spec.Template
	})
}

// moved returns the Machine of MachineSet b.
func (w *world) moved() *clusterv1.Machine {
	w.t.Helper()
	for _, m := range w.machines() {
		if m.Labels[clusterv1.MachineDeploymentUniqueLabel] == "b" {
			return &m
		}
	}
	w.t.Fatal("no Machine has moved")
	return nil
}

// reverts plans that the Machine of MachineSet b goes back to MachineSet a.
func reverts(w *world) []string {
	name := w.moved().Name
	w.template("a")
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
		*s.Spec.Replicas = 2
		delete(s.Annotations, clusterv1.MachineSetMoveMachinesToMachineSetAnnotation)
		s.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation] = "b"
		s.Annotations[clusterv1.DisableMachineCreateAnnotation] = "true"
		s.Annotations[clusterv1.AcknowledgedMoveAnnotation] = name
	})
	edit(w, w.set("b"), func(s *clusterv1.MachineSet) {
		*s.Spec.Replicas = 0
		s.Annotations[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation] = "a"
		s.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation] = "a"
		s.Annotations[v1alpha1.ReturnMachinesAnnotation] = name
	})
	return []string{"b", "a"}
}

// returnsUncounted reverts before MachineSet b could write anything.
func returnsUncounted(w *world) []string {
	keeps(w)
	w.settle("a")
	return reverts(w)
}

// returnsCounted reverts after MachineSet b has written its template and the pending hook, and the
// update was refused.
func returnsCounted(w *world) []string {
	keeps(w)
	w.settle("a")
	edit(w, w.set("b"), func(s *clusterv1.MachineSet) {
		*s.Spec.Replicas = 1
		s.Annotations = with(s.Annotations, clusterv1.AcknowledgedMoveAnnotation, w.moved().Name)
	})
	w.settle("a", "b")
	editStatus(w, w.moved(), func(m *clusterv1.Machine) {
		conditions.Set(m, metav1.Condition{
			Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionTrue,
			Reason: v1alpha1.NoDecisionReason,
		})
	})
	return reverts(w)
}

// TestReturn: a revert takes back a Machine whose update has not begun. It has its old template
// again, and nothing but the end of the update is left to the Machine controller.
func TestReturn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scenario func(w *world) []string
		first    string
	}{
		"uncounted": {returnsUncounted, "v1.33.0"}, "counted": {returnsCounted, "v1.34.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			sets := tt.scenario(w)
			m := w.moved()
			if m.Spec.Version != tt.first || !pool.MayReturn(m, "b", "a") {
				t.Errorf("before the return: %+v", m)
			}
			w.Take()
			if err := w.reconcile("b"); err != nil {
				t.Fatal(err)
			}
			if got := w.Take(); got[len(got)-2] != "patch Machine" {
				t.Errorf("writes %s", got)
			}
			// Cluster API knows this state: a Machine that has just moved.
			want := map[string]string{
				clusterv1.UpdateInProgressAnnotation: "", clusterv1.PendingAcknowledgeMoveAnnotation: "",
			}
			if diff := cmp.Diff(want, w.marks(m.Name)); diff != "" {
				t.Errorf("marks after the return (-want +got):\n%s", diff)
			}
			w.settle(sets...)
			want = map[string]string{runtimev1.PendingHooksAnnotation: "UpdateMachine"}
			if diff := cmp.Diff(want, w.marks(m.Name)); diff != "" {
				t.Errorf("marks in the end (-want +got):\n%s", diff)
			}
			after := get(w, m.Name, &clusterv1.Machine{})
			if !metav1.IsControlledBy(after, w.set("a")) || after.Spec.Version != "v1.33.0" ||
				len(w.machines()) != 2 ||
				after.Labels[clusterv1.MachineDeploymentUniqueLabel] != "a" ||
				conditions.Has(after, v1alpha1.UpdateBlockedCondition) ||
				after.Annotations[v1alpha1.MovedFromAnnotation] != "" {
				t.Errorf("in the end: %+v", after)
			}
		})
	}
}

// marks are the marks of an update on a Machine.
func (w *world) marks(name string) map[string]string {
	w.t.Helper()
	all := map[string]string{}
	annotations := get(w, name, &clusterv1.Machine{}).Annotations
	for _, key := range []string{
		clusterv1.UpdateInProgressAnnotation, clusterv1.PendingAcknowledgeMoveAnnotation,
		runtimev1.PendingHooksAnnotation,
	} {
		if value, ok := annotations[key]; ok {
			all[key] = value
		}
	}
	return all
}

// TestReturnMeetsBegin: if the update begins while the return is being written, the return fails,
// and the Machine stays. No other Machine goes in its place.
func TestReturnMeetsBegin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sets := returnsCounted(w)
	m := w.moved()
	w.Fail = func(verb, kind string) (error, bool) {
		if verb == "patch" && kind == "Machine" {
			w.Fail = nil
			edit(w, get(w, m.Name, &clusterv1.Machine{}), func(m *clusterv1.Machine) {
				m.Annotations = with(m.Annotations, v1alpha1.UpdateProgressAnnotation, "{}")
				delete(m.Annotations, v1alpha1.MovedFromAnnotation)
			})
		}
		return nil, false
	}
	if err := w.reconcile("b"); !apierrors.IsConflict(err) &&
		(err == nil || !strings.Contains(err.Error(), "onflict")) {
		t.Errorf("error %v", err)
	}
	w.settle(sets[0])
	after := get(w, m.Name, &clusterv1.Machine{})
	if !metav1.IsControlledBy(after, w.set("b")) || after.Spec.Version != "v1.34.0" {
		t.Errorf("a Machine whose update has begun went back: %+v", after)
	}
}

// TestProof: only a move in a kept group about which the engine in Windlass has decided can be
// taken back.
func TestProof(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(w *world){
		"not kept": func(w *world) { w.policy = policy.Policy{} },
		"another engine": func(w *world) {
			edit(w, w.set("a"),
				func(s *clusterv1.MachineSet) { delete(s.Annotations, v1alpha1.UpdateDecisionsAnnotation) })
		},
	} {
		w := newWorld(t)
		keeps(w)
		prepare(w)
		w.settle("a")
		if m := w.moved(); pool.MayReturn(m, "b", "a") {
			t.Errorf("%s: Machine %s could go back: %v", name, client.ObjectKeyFromObject(m), m.Annotations)
		}
	}
}

// TestRevertMeetsMove: a MachineSet moves a Machine by a plan that a revert has just withdrawn. It
// creates none in its place, because the group of kept Machines lacks none. It creates one as soon as
// the group does.
func TestRevertMeetsMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keeps(w)
	deployment := get(w, "d", &clusterv1.MachineDeployment{})
	edit(w, deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(2)) })
	for _, name := range []string{"a", "b"} {
		edit(w, w.set(name), func(s *clusterv1.MachineSet) {
			s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(deployment, capi.MachineDeploymentKind)}
		})
	}
	w.settle("a")
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
		*s.Spec.Replicas = 2
		delete(s.Annotations, clusterv1.MachineSetMoveMachinesToMachineSetAnnotation)
	})
	w.settle("a")
	if n := len(w.machines()); n != 2 {
		t.Errorf("a revert leads to %d Machines", n)
	}
	stranger := w.moved().DeepCopy()
	if err := w.Inner.Delete(t.Context(), w.moved()); err != nil {
		t.Fatal(err)
	}
	edit(w, w.moved(), func(m *clusterv1.Machine) { m.Finalizers = nil })
	stranger.Name, stranger.ResourceVersion, stranger.UID = "stranger", "", ""
	stranger.OwnerReferences[0].UID = "of another group"
	w.Put(stranger)
	w.settle("a")
	if n := len(w.machines()); n != 3 {
		t.Errorf("a group that lacks a Machine gets none: %d Machines, one of which is another's", n)
	}
}
