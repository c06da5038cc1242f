package pool_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
)

// How far the update of a Machine has come when the template is reverted.
type stage func(m *clusterv1.Machine, from, to string)

func hasMoved(m *clusterv1.Machine, from, to string) {
	m.Annotations = map[string]string{
		v1alpha1.MovedFromAnnotation: pool.MovedFrom(m, from,
			to), clusterv1.UpdateInProgressAnnotation: "",
		clusterv1.PendingAcknowledgeMoveAnnotation: "",
	}
}

func waits(m *clusterv1.Machine, from, to string) {
	hasMoved(m, from, to)
	delete(m.Annotations, clusterv1.PendingAcknowledgeMoveAnnotation)
	m.Annotations[runtimev1.PendingHooksAnnotation] = "Other,UpdateMachine"
	m.Spec.Version = "v1.31.0"
}

func hasBegun(m *clusterv1.Machine, from, to string) {
	waits(m, from, to)
	m.Annotations[v1alpha1.UpdateProgressAnnotation] = "{}"
	delete(m.Annotations, v1alpha1.MovedFromAnnotation)
}

func withoutProof(m *clusterv1.Machine, from, to string) {
	waits(m, from, to)
	delete(m.Annotations, v1alpha1.MovedFromAnnotation)
}

func withOldProof(m *clusterv1.Machine, from, to string) {
	waits(m, from, to)
	m.Annotations[v1alpha1.LastUpdateAnnotation] = `{"id":"later"}`
}

func fromElsewhere(m *clusterv1.Machine, _, to string) { waits(m, "md-other", to) }

func raised(m *clusterv1.Machine, from, to string) {
	waits(m, from, to)
	m.Status.NodeInfo = kubelet("v1.31.0")
}

// hasEnded is a Machine whose status still shows the kubelet from before the update.
func hasEnded(m *clusterv1.Machine, _, _ string) {
	m.Annotations = map[string]string{v1alpha1.LastUpdateAnnotation: `{"id":"u","to":"v1.31.0"}`}
	m.Spec.Version = "v1.31.0"
}

func hasUnknownRecord(m *clusterv1.Machine, _, _ string) {
	m.Annotations = map[string]string{v1alpha1.LastUpdateAnnotation: "{"}
}

func leaving(m *clusterv1.Machine, from, to string) {
	waits(m, from, to)
	m.DeletionTimestamp = new(metav1.NewTime(epoch))
}

// reverted is a kept group whose three Machines have moved to a new MachineSet when the template is
// reverted. It returns the MachineSets that they left and where they are.
func reverted(
	t *testing.T, stages [3]stage, edits ...func(*clusterv1.MachineDeployment),
) (w *world, first, second string) {
	t.Helper()
	w = settledGroup(t, true)
	w.covered["v1.30.0"] = pool.AnswerUnknown
	for name := range w.sets {
		first = name
	}
	toVersion("v1.31.0")(w.md)
	w.reconcile(t)
	for name := range w.sets {
		if name != first {
			second = name
		}
	}
	for i, name := range w.names() {
		m := w.machines[name]
		w.own(m, w.sets[second])
		w.set(m, false)
		stages[i](m, first, second)
	}
	w.sets[first].Spec.Replicas, w.sets[second].Spec.Replicas = new(int32(0)), new(int32(3))
	for _, set := range w.sets {
		w.report(set)
	}
	toVersion("v1.30.0")(w.md)
	for _, edit := range edits {
		edit(w.md)
	}
	w.reconcile(t)
	return w, first, second
}

// TestRevert: a revert takes back the Machines whose updates have not begun, without a look at what
// updates cover. The others end their updates.
func TestRevert(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stages [3]stage
		want   []string
		// going are the Machines that go back, by number, and target what is left.
		going  []int
		target int32
	}{
		"none has begun": {
			[3]stage{hasMoved, waits, waits}, []string{"update Return", "update Return",
				"update Return"}, []int{0, 1, 2}, 0,
		},
		"one has begun": {
			[3]stage{hasBegun, waits, hasMoved}, []string{"update Updating", "update Return",
				"update Return"}, []int{1, 2}, 1,
		},
		"one is marked by another engine": {
			[3]stage{withoutProof, waits, waits}, []string{"update Updating", "update Return",
				"update Return"}, []int{1, 2}, 1,
		},
		"one was updated later": {
			[3]stage{withOldProof, waits, waits}, []string{"update Updating", "update Return",
				"update Return"}, []int{1, 2}, 1,
		},
		"one had another template": {
			[3]stage{fromElsewhere, waits, waits}, []string{"update Updating", "update Return",
				"update Return"}, []int{1, 2}, 1,
		},
		"one has ended, and status does not show it": {
			[3]stage{hasEnded, waits, waits}, []string{"wait KubeletAhead", "update Return",
				"update Return"}, []int{1, 2}, 1,
		},
		"one has a record that cannot be read": {
			[3]stage{hasUnknownRecord, waits, waits}, []string{"wait KubeletAhead", "update Return",
				"update Return"}, []int{1, 2}, 1,
		},
		"one has the new kubelet": {
			[3]stage{raised, waits, waits}, []string{"update Updating", "update Return",
				"update Return"}, []int{1, 2}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, first, second := reverted(t, test.stages)
			var got []string
			for _, d := range w.plan.Decisions {
				got = append(got, string(d.Action)+" "+string(d.Reason))
			}
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Errorf("the decisions differ (-want +got):\n%s%s", diff, w)
			}
			f := w.facts(w.sets[second])
			f.Policy.HandOver = true
			if n := *f.MachineSet.Spec.Replicas; n != test.target {
				t.Errorf("replicas %d, want %d", n, test.target)
			}
			scaling, err := f.Scale()
			if err != nil || scaling.Count != len(test.going) || scaling.Target != first {
				t.Errorf("scaling %+v, %v", scaling, err)
			}
			checkReturns(t, w, f, scaling.Count, test.going)
		})
	}
}

// TestRevertAndEdit: neither a pause nor fewer replicas keep Machines from going back. None is deleted
// where it could go back.
func TestRevertAndEdit(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*clusterv1.MachineDeployment){
		"pause": func(md *clusterv1.MachineDeployment) { md.Spec.Paused = new(true) },
		"scale": func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, first, second := reverted(t, [3]stage{hasBegun, waits, waits}, edit)
			f := w.facts(w.sets[second])
			f.Policy.HandOver = true
			scaling, err := f.Scale()
			if err != nil || scaling.Count != 2 || scaling.Target != first {
				t.Errorf("scaling %+v, %v", scaling, err)
			}
			checkReturns(t, w, f, scaling.Count, []int{1, 2})
		})
	}
	w, _, second := reverted(t, [3]stage{hasBegun, hasBegun, hasBegun}, func(md *clusterv1.MachineDeployment) {
		md.Spec.Replicas = new(int32(1))
	})
	if n := *w.sets[second].Spec.Replicas; n != 1 {
		t.Errorf("%d Machines stay where none can go back, want 1", n)
	}
}

// checkReturns fails the test unless the Machines with these numbers return, and no others.
func checkReturns(t *testing.T, w *world, f pool.SetFacts, count int, want []int) {
	t.Helper()
	departures, err := f.Departures(count)
	if err != nil {
		t.Fatal(err)
	}
	var got, names []string
	for _, d := range departures {
		got = append(got, d.Machine.Name+" "+string(d.Reason))
	}
	for _, i := range want {
		names = append(names, w.names()[i]+" Return")
	}
	if diff := gocmp.Diff(names, got); diff != "" {
		t.Errorf("who leaves (-want +got):\n%s", diff)
	}
}

// TestRevertMeetsBegin: if the update of a Machine begins after the plan, the Machine stays, and no
// other one goes in its place.
func TestRevertMeetsBegin(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]stage{"begins": hasBegun, "is deleted": leaving,
		"has ended": func(m *clusterv1.Machine, _, _ string) {
			m.Annotations = nil
			m.Status.NodeInfo = kubelet("v1.30.0")
		}} {
		w, first, second := reverted(t, [3]stage{waits, waits, withoutProof})
		then(w.machines[w.names()[0]], first, second)
		f := w.facts(w.sets[second])
		f.Policy.HandOver = true
		t.Log(name)
		checkReturns(t, w, f, 2, []int{1})
	}
}

// TestMovedFrom pins the form of the annotation: another release may have written it.
func TestMovedFrom(t *testing.T) {
	t.Parallel()
	m := &clusterv1.Machine{}
	if got, want := pool.MovedFrom(m, "md-a", "md-b"), "md-a/md-b/811c9dc5"; got != want {
		t.Errorf("without an earlier update %q, want %q", got, want)
	}
	m.Annotations = map[string]string{v1alpha1.LastUpdateAnnotation: `{"id":"u1"}`}
	if got, want := pool.MovedFrom(m, "md-a", "md-b"), "md-a/md-b/5d556432"; got != want {
		t.Errorf("after an update %q, want %q", got, want)
	}
}

// TestMoveAnnotations: what a move writes on a Machine.
func TestMoveAnnotations(t *testing.T) {
	t.Parallel()
	w, first, second := reverted(t, [3]stage{waits, waits, waits})
	m := w.machines[w.names()[0]]
	f := w.facts(w.sets[second])
	f.Policy.HandOver = true
	marks := map[string]string{
		clusterv1.UpdateInProgressAnnotation: "", clusterv1.PendingAcknowledgeMoveAnnotation: "",
	}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(marks)
		maps.Copy(all, more)
		return all
	}
	const hooks, proof = runtimev1.PendingHooksAnnotation, v1alpha1.MovedFromAnnotation
	back := f.MoveAnnotations(pool.Departure{Machine: m, Reason: pool.ReasonReturn}, first)
	if diff := gocmp.Diff(with(map[string]string{hooks: "Other",
		proof: pool.MovedFrom(m, first, first)}), back); diff != "" {
		t.Errorf("a Machine that goes back (-want +got):\n%s", diff)
	}
	returned := m.DeepCopy()
	returned.Annotations = back
	if !pool.HasReturned(returned, first) || pool.HasReturned(m, second) ||
		pool.MayReturn(returned, first, second) {
		t.Error("a Machine that went back is not known as such, or another one is")
	}
	move := pool.Departure{Machine: m, Reason: pool.Reason(pool.ReasonMove)}
	m.Annotations = nil
	if diff := gocmp.Diff(marks, f.MoveAnnotations(move, first)); diff != "" {
		t.Errorf("a move that nobody decided (-want +got):\n%s", diff)
	}
	f.MachineSet.Annotations[v1alpha1.UpdateDecisionsAnnotation] = "[]"
	if diff := gocmp.Diff(with(map[string]string{proof: pool.MovedFrom(m, second, first)}),
		f.MoveAnnotations(move, first)); diff != "" {
		t.Errorf("a move (-want +got):\n%s", diff)
	}
}

// TestWithCounted: names of Machines that are counted already may stay while more Machines can
// arrive.
func TestWithCounted(t *testing.T) {
	set := func(receives, counted string) *clusterv1.MachineSet {
		s := &clusterv1.MachineSet{}
		s.Annotations = map[string]string{
			clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation: receives,
			clusterv1.AcknowledgedMoveAnnotation:                         counted,
		}
		maps.DeleteFunc(s.Annotations, func(_, value string) bool { return value == "" })
		return s
	}
	for name, tt := range map[string]struct {
		desired, current *clusterv1.MachineSet
		want             string
	}{
		"the last name leaves":               {set("old", ""), set("old", "a"), "a"},
		"one of two leaves":                  {set("old", "b"), set("old", "a,b"), "a,b"},
		"another Machine is counted":         {set("old", "b"), set("old", "a"), ""},
		"one leaves, and another is counted": {set("old", "b"), set("old", "a,c"), ""},
		"no more can arrive":                 {set("", ""), set("old", "a"), ""},
		"nothing leaves":                     {set("old", "a"), set("old", "a"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if kept := pool.WithCounted(tt.desired, tt.current); kept != nil {
				got = kept.Annotations[clusterv1.AcknowledgedMoveAnnotation]
			}
			if got != tt.want {
				t.Errorf("kept %q, want %q", got, tt.want)
			}
		})
	}
}

// TestReturnOfThousands: the names of Machines that return fit in an annotation. An object has at most
// 256 KiB of them.
func TestReturnOfThousands(t *testing.T) {
	t.Parallel()
	const machines = 5000
	w := newWorld(machines, 0, 0)
	w.keep = true
	w.md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromString("100%"))
	w.reconcile(t)
	first := w.setOf("v1.30.0")
	toVersion("v1.31.0")(w.md)
	w.reconcile(t)
	second := w.setOf("v1.31.0")
	for i := range machines {
		m := &clusterv1.Machine{Spec: *second.Spec.Template.Spec.DeepCopy()}
		m.Name = fmt.Sprintf("a-machine-with-a-name-that-is-as-long-as-cluster-api-allows-%04d", i)
		w.own(m, second)
		m.Status.NodeRef.Name = m.Name
		m.Status.NodeInfo = kubelet("v1.30.0")
		w.set(m, false)
		waits(m, first.Name, second.Name)
		w.machines[m.Name] = m
	}
	second.Spec.Replicas = new(int32(machines))
	w.report(second)
	toVersion("v1.30.0")(w.md)
	w.reconcile(t)
	for _, set := range w.sets {
		size := 0
		for key, value := range set.Annotations {
			size += len(key) + len(value)
		}
		if size > 200<<10 {
			t.Errorf("MachineSet %s has %d bytes of annotations", set.Name, size)
		}
	}
	named := strings.Count(w.setOf("v1.31.0").Annotations[v1alpha1.ReturnMachinesAnnotation], ",") + 1
	if left := machines - int(*w.setOf("v1.31.0").Spec.Replicas); named != left || named < 100 {
		t.Errorf("the plan names %d Machines, and %d return", named, left)
	}
}

// TestCameFrom checks which Machines name the MachineSet that they left.
func TestCameFrom(t *testing.T) {
	t.Parallel()
	returned := func(m *clusterv1.Machine, from, _ string) { hasMoved(m, from, from) }
	for name, test := range map[string]struct {
		stage stage
		want  string
	}{
		"has moved":      {hasMoved, "md-a"},
		"waits":          {waits, "md-a"},
		"from elsewhere": {fromElsewhere, "md-other"},
		"has begun":      {hasBegun, ""},
		"without proof":  {withoutProof, ""},
		"with old proof": {withOldProof, ""},
		"has ended":      {hasEnded, ""},
		"returned":       {returned, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{}
			test.stage(m, "md-a", "md-b")
			if got := pool.CameFrom(m); got != test.want {
				t.Errorf("came from %q, want %q", got, test.want)
			}
		})
	}
}
