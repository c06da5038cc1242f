package machineset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
)

// arrives has an old MachineSet whose first Machine was updated by an updater that has all of them, and
// whose plan gives that Machine to the new MachineSet.
func arrives(w *world) []string {
	w.policy = policy.Policy{HandOver: true}
	existing(w)
	w.belongs()
	m := w.machines()[0]
	w.writeObjects(&m)
	target := set("b", "b", 0)
	target.Labels = with(target.Labels, clusterv1.MachineDeploymentNameLabel, "d")
	target.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation] = "a"
	target.Annotations[clusterv1.AcknowledgedMoveAnnotation] = m.Name
	w.Put(target)
	w.template("b")
	w.settle("b")
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
		*s.Spec.Replicas = 1
		s.Annotations = with(s.Annotations, clusterv1.MachineSetMoveMachinesToMachineSetAnnotation, "b")
		s.Annotations[v1alpha1.ReturnMachinesAnnotation] = m.Name
		s.Annotations[v1alpha1.HandedOverAnnotation] = "{}"
		s.Annotations[v1alpha1.UpdateDecisionsAnnotation] = "[]"
	})
	return []string{"a", "b"}
}

// writeObjects writes the objects of a Machine as the updater does that has it.
func (w *world) writeObjects(m *clusterv1.Machine) {
	w.t.Helper()
	for group, kind := range map[string]string{"infrastructure": "TestMachine", "bootstrap": "TestConfig"} {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(group + ".cluster.x-k8s.io/v1beta2")
		object.SetKind(kind)
		edit(w, get(w, m.Name, object), func(o *unstructured.Unstructured) { o.Object["spec"] = map[string]any{"of": "b"} })
	}
	edit(w, m, func(m *clusterv1.Machine) { m.Spec.Version = "v1.34.0" })
	editStatus(w, m, func(m *clusterv1.Machine) {
		m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: "v1.34.0"}
		conditions.Set(m, metav1.Condition{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: "Test"})
	})
}

// TestArrival: a Machine that an updater has written goes to the new MachineSet, with its label, and is
// updated by nobody. What is left to the Machine controller is to remove a hook that nobody asks for.
// The specs of its objects are not changed.
func TestArrival(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sets := arrives(w)
	before := w.machines()[0]
	w.Take()
	if err := w.reconcile("a"); err != nil {
		t.Fatal(err)
	}
	// Cluster API knows this state: a Machine that has just moved.
	want := map[string]string{clusterv1.UpdateInProgressAnnotation: "", clusterv1.PendingAcknowledgeMoveAnnotation: ""}
	if diff := cmp.Diff(want, w.marks(before.Name)); diff != "" {
		t.Errorf("marks after the move (-want +got):\n%s", diff)
	}
	edit(w, w.set("b"), func(s *clusterv1.MachineSet) { *s.Spec.Replicas = 1 })
	w.settle(sets...)
	after := w.moved()
	if after.Name != before.Name || !metav1.IsControlledBy(after, w.set("b")) || len(w.machines()) != 2 {
		t.Errorf("in the end: %+v", after)
	}
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("spec of the Machine (-before +after):\n%s", diff)
	}
	for _, key := range []string{clusterv1.UpdateInProgressAnnotation, clusterv1.PendingAcknowledgeMoveAnnotation, v1alpha1.MovedFromAnnotation} {
		if _, ok := after.Annotations[key]; ok {
			t.Errorf("the Machine still has %s", key)
		}
	}
	if all := w.state(); strings.Count(all, `"spec":{"of":"b"}`) != 2 || strings.Count(all, `"cloned-from-name":"b"`)+strings.Count(all, `cloned-from-name":"b"`) < 2 {
		t.Errorf("the objects are not those of the new template:\n%s", all)
	}
}

// TestArrivalAfterPolicyChange: if the policy hands nothing over any more before the next plan, the Machine
// that the last plan names leaves, and no other one.
func TestArrivalAfterPolicyChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sets := arrives(w)
	name := w.machines()[0].Name
	w.policy = policy.Policy{}
	m := w.machines()[1]
	edit(w, &m, func(m *clusterv1.Machine) { // The first one in the order of deletions.
		m.Annotations = with(m.Annotations, clusterv1.DeleteMachineAnnotation, "")
	})
	edit(w, w.set("b"), func(s *clusterv1.MachineSet) { *s.Spec.Replicas = 1 })
	w.settle(sets...)
	if moved := w.moved(); moved.Name != name {
		t.Errorf("Machine %s went, want %s", moved.Name, name)
	}
}

// TestArrivalCrashes kills the process at each write of an arrival, before and after it is carried out.
func TestArrivalCrashes(t *testing.T) {
	t.Parallel()
	checkCrashes(t, func(w *world) []string {
		sets := arrives(w)
		edit(w, w.set("b"), func(s *clusterv1.MachineSet) {
			*s.Spec.Replicas = 1
			s.Annotations[clusterv1.DisableMachineCreateAnnotation] = "true"
		})
		return sets
	})
}

// TestArrivalMeetsWrite: if the Machine is written while it leaves, it stays for now: it may not be as
// the template asks any more.
func TestArrivalMeetsWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arrives(w)
	name := w.machines()[0].Name
	w.Fail = func(verb, kind string) (error, bool) {
		if verb == "patch" && kind == "Machine" {
			w.Fail = nil
			edit(w, get(w, name, &clusterv1.Machine{}), func(m *clusterv1.Machine) { m.Spec.Version = "v1.33.0" })
		}
		return nil, false
	}
	if err := w.reconcile("a"); err == nil || !strings.Contains(err.Error(), "modified") {
		t.Errorf("error %v", err)
	}
	w.settle("a")
	if m := get(w, name, &clusterv1.Machine{}); !metav1.IsControlledBy(m, w.set("a")) || len(w.marks(name)) > 0 {
		t.Errorf("a Machine that was half written went: %+v", m)
	}
}

// TestUpdaterWritesBeforeSync: a MachineSet that was handed over and copies a label to its Machines
// does not take back the version that the updater writes at that moment.
func TestUpdaterWritesBeforeSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policy = policy.Policy{HandOver: true}
	existing(w)
	w.belongs()
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
		s.Annotations = with(s.Annotations, v1alpha1.HandedOverAnnotation, "{}")
	})
	w.settle("a")
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) { s.Spec.Template.Labels["l"] = "2" })
	written := map[string]bool{}
	w.Fail = func(verb, kind string) (error, bool) {
		if verb == "apply" && kind == "Machine" && len(written) == 0 {
			for _, m := range w.machines() {
				written[m.Name] = true
				edit(w, &m, func(m *clusterv1.Machine) { m.Spec.Version = "v1.34.0" })
			}
		}
		return nil, false
	}
	if err := w.reconcile("a"); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	w.settle("a")
	for _, m := range w.machines() {
		if !written[m.Name] || m.Spec.Version != "v1.34.0" || m.Labels["l"] != "2" {
			t.Errorf("Machine %s: version %s, label %q", m.Name, m.Spec.Version, m.Labels["l"])
		}
	}
}
