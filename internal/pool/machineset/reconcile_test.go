package machineset

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/pool"
)

// The scenarios prepare a world, and return the MachineSets to reconcile.

func creates(w *world) []string {
	w.Put(set("a", "a", 1))
	return []string{"a"}
}

// existing has two Machines with Nodes.
func existing(w *world) []string {
	w.Put(set("a", "a", 2))
	w.settle("a")
	for _, m := range w.machines() {
		editStatus(w, &m, func(m *clusterv1.Machine) {
			m.Status.NodeRef.Name = m.Name
			m.CreationTimestamp = metav1.NewTime(start)
		})
	}
	w.settle("a")
	return []string{"a"}
}

func scalesDown(w *world) []string {
	existing(w)
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) { *s.Spec.Replicas = 1 })
	return []string{"a"}
}

// moves has an old MachineSet that gives one of two Machines to a new one, and a new one that may
// not count it so far.
func moves(w *world) []string {
	existing(w)
	target := set("b", "b", 0)
	target.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation] = "a"
	w.Put(target)
	w.settle("b")
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
		*s.Spec.Replicas = 1
		s.Annotations = with(s.Annotations, clusterv1.MachineSetMoveMachinesToMachineSetAnnotation, "b")
	})
	return []string{"a", "b"}
}

// counted is moves after the MachineDeployment has counted the Machine.
func counted(w *world) []string {
	w.settle(moves(w)...)
	edit(w, w.set("b"), func(s *clusterv1.MachineSet) {
		*s.Spec.Replicas = 1
		for _, m := range w.machines() {
			if _, ok := m.Annotations[clusterv1.PendingAcknowledgeMoveAnnotation]; ok {
				s.Annotations = with(s.Annotations, clusterv1.AcknowledgedMoveAnnotation, m.Name)
			}
		}
	})
	return []string{"a", "b"}
}

func relabels(w *world) []string {
	existing(w)
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
		s.Spec.Template.Labels["l"] = "2"
		delete(s.Spec.Template.Annotations, "note")
	})
	return []string{"a"}
}

func remediates(w *world) []string {
	existing(w)
	m := w.machines()[0]
	editStatus(w, &m, func(m *clusterv1.Machine) {
		for _, kind := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition} {
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionFalse, Reason: "R", LastTransitionTime: metav1.NewTime(start),
			})
		}
	})
	return []string{"a"}
}

func ends(w *world) []string {
	existing(w)
	if err := w.Inner.Delete(w.t.Context(), w.set("a")); err != nil {
		w.t.Fatal(err)
	}
	return []string{"a"}
}

// TestWrites checks the requests of each scenario, and their order.
func TestWrites(t *testing.T) {
	t.Parallel()
	one := []string{
		"apply TestConfig", "patch TestConfig", "apply TestMachine", "patch TestMachine", "apply Machine",
		"patch-status Machine",
	}
	metadata := []string{"apply TestMachine", "apply TestConfig"}
	sync := append([]string{"apply Machine"}, metadata...)
	for name, tt := range map[string]struct {
		scenario func(w *world) []string
		want     [][]string
	}{
		"create": {creates, [][]string{
			{"patch MachineSet"}, {"patch TestMachineTemplate", "patch TestConfigTemplate"}, one,
			{"patch-status MachineSet", "patch MachineSet"}, metadata, {"patch-status MachineSet"},
		}},
		"nothing to do": {existing, nil},
		"scale down":    {scalesDown, [][]string{{"delete Machine", "patch-status MachineSet"}}},
		"move": {moves, [][]string{
			{"patch Machine", "patch-status MachineSet"}, metadata, {"patch-status MachineSet",
				"patch-status MachineSet"},
		}},
		"counted": {counted, [][]string{
			{"apply TestMachine", "apply TestConfig", "apply Machine", "patch Machine"}, {"patch-status MachineSet"},
		}},
		"relabel":   {relabels, [][]string{sync, sync, {"patch-status MachineSet"}}},
		"remediate": {remediates, [][]string{{"patch-status Machine", "delete Machine", "patch-status MachineSet"}}},
		"end":       {ends, [][]string{{"delete Machine", "delete Machine", "patch-status MachineSet"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			sets := tt.scenario(w)
			w.Take()
			var want []string
			for _, part := range tt.want {
				want = append(want, part...)
			}
			if diff := cmp.Diff(want, w.settle(sets...)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNotPausedAtOnce: a new Machine has the condition Paused before the Machine controller sees it.
// That controller writes it where this one cannot, or must not.
func TestNotPausedAtOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		paused, fails bool
		want          metav1.ConditionStatus
	}{
		"new":               {want: metav1.ConditionFalse},
		"paused from birth": {paused: true},
		"the write fails":   {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Put(set("a", "a", 1))
			edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
				if tt.paused {
					s.Spec.Template.Annotations[clusterv1.PausedAnnotation] = ""
				}
			})
			w.Fail = func(verb, kind string) (error, bool) {
				if tt.fails && verb == "patch-status" && kind == "Machine" {
					return errors.New("no status for you"), false
				}
				return nil, false
			}
			w.settle("a")
			machines := w.machines()
			if len(machines) != 1 {
				t.Fatalf("there are %d Machines", len(machines))
			}
			var got metav1.ConditionStatus
			if c := conditions.Get(&machines[0], clusterv1.PausedCondition); c != nil {
				got = c.Status
			}
			if got != tt.want {
				t.Errorf("Paused is %q, want %q", got, tt.want)
			}
		})
	}
}

// TestCrashes kills the process at each write of each scenario.
func TestCrashes(t *testing.T) {
	t.Parallel()
	for name, scenario := range map[string]func(w *world) []string{
		"create": creates, "scale down": scalesDown, "move": moves, "counted": counted, "relabel": relabels,
		"remediate": remediates, "end": ends, "return": returnsCounted,
		"return, uncounted": returnsUncounted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkCrashes(t, scenario)
		})
	}
}

// TestMove follows a Machine from one MachineSet to the next.
func TestMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settle(moves(w)...)
	moved := func() *clusterv1.Machine {
		t.Helper()
		for _, m := range w.machines() {
			if metav1.IsControlledBy(&m, w.set("b")) {
				return &m
			}
		}
		t.Fatal("no Machine has moved")
		return nil
	}
	marks := func(m *clusterv1.Machine) map[string]string {
		all := map[string]string{}
		for _, key := range []string{
			clusterv1.UpdateInProgressAnnotation, clusterv1.PendingAcknowledgeMoveAnnotation, runtimev1.PendingHooksAnnotation,
		} {
			if value, ok := m.Annotations[key]; ok {
				all[key] = value
			}
		}
		return all
	}
	want := map[string]string{clusterv1.UpdateInProgressAnnotation: "", clusterv1.PendingAcknowledgeMoveAnnotation: ""}
	if diff := cmp.Diff(want, marks(moved())); diff != "" {
		t.Errorf("marks before it was counted (-want +got):\n%s", diff)
	}
	if got := moved(); got.Spec.Version != "v1.33.0" || got.Labels[clusterv1.MachineDeploymentUniqueLabel] != "b" ||
		got.Labels[clusterv1.MachineSetNameLabel] != "a" {
		t.Errorf("before it was counted: %+v", got)
	}
	edit(w, w.set("b"), func(s *clusterv1.MachineSet) {
		*s.Spec.Replicas = 1
		s.Annotations = with(s.Annotations, clusterv1.AcknowledgedMoveAnnotation, moved().Name)
	})
	w.settle("a", "b")
	want = map[string]string{clusterv1.UpdateInProgressAnnotation: "", runtimev1.PendingHooksAnnotation: "UpdateMachine"}
	if diff := cmp.Diff(want, marks(moved())); diff != "" {
		t.Errorf("marks after it was counted (-want +got):\n%s", diff)
	}
	if got := moved(); got.Spec.Version != "v1.34.0" ||
		got.Labels[clusterv1.MachineSetNameLabel] != "b" {
		t.Errorf("version %s, labels %v", got.Spec.Version, got.Labels)
	}
	for _, group := range []string{"infrastructure", "bootstrap"} {
		kind := map[string]string{"infrastructure": "TestMachine", "bootstrap": "TestConfig"}[group]
		object := testTemplate("", group, kind, moved().Name)
		if err := w.Inner.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		spec, _ := object.Object["spec"].(map[string]any)
		if _, ok := object.GetAnnotations()[clusterv1.UpdateInProgressAnnotation]; !ok || spec["of"] != "b" ||
			object.GetLabels()["l"] != "1" || object.GetAnnotations()["note"] != "1" {
			t.Errorf("%s: %v", kind, object.Object)
		}
	}
}

// TestMovesInParts: a MachineSet gives a few Machines at a time, so that their updates begin while the
// others move.
func TestMovesInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	moves(w)
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) { *s.Spec.Replicas = movesPerRun + 3 })
	delete(w.set("a").Annotations, clusterv1.MachineSetMoveMachinesToMachineSetAnnotation)
	w.settle("a")
	for _, m := range w.machines() {
		editStatus(w, &m, func(m *clusterv1.Machine) { m.Status.NodeRef.Name = m.Name })
	}
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) { *s.Spec.Replicas = 0 })
	moved := func() (n int) {
		if err := w.reconcile("a"); err != nil {
			t.Fatal(err)
		}
		for _, m := range w.machines() {
			if pool.IsMovePending(&m) {
				n++
			}
		}
		return n
	}
	if first, all := moved(), moved(); first != movesPerRun || all != movesPerRun+3 {
		t.Errorf("%d and then %d Machines have moved, want %d and %d", first, all, movesPerRun, movesPerRun+3)
	}
}
