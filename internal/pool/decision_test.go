package pool_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// settledGroup is a group of three Machines, of which one may be unavailable. Updates in place lead
// to v1.31.0.
func settledGroup(t failer, keep bool) *world {
	t.Helper()
	w := newWorld(3, 0, 1)
	w.keep = keep
	w.covered["v1.31.0"] = pool.AnswerYes
	w.settle(t)
	return w
}

func updating(m *clusterv1.Machine) {
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.UpdateInProgressAnnotation, "")
}

// TestDecisions: what a plan does to each Machine, in the order of their names.
func TestDecisions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keep   bool
		change func(w *world, machines []*clusterv1.Machine)
		want   []string
	}{
		"as desired": {want: []string{"keep UpToDate", "keep UpToDate", "keep UpToDate"}},
		"fewer are desired": {
			change: func(w *world, _ []*clusterv1.Machine) { w.md.Spec.Replicas = new(int32(2)) },
			want:   []string{"delete Surplus", "keep UpToDate", "keep UpToDate"},
		},
		"fewer are desired, and one goes already": {
			change: func(w *world, machines []*clusterv1.Machine) {
				w.md.Spec.Replicas = new(int32(2))
				inDeletion(0)(machines[1])
			},
			want: []string{"keep UpToDate", "delete Deleting", "keep UpToDate"},
		},
		"one is being updated": {
			change: func(_ *world, machines []*clusterv1.Machine) { updating(machines[1]) },
			want:   []string{"keep UpToDate", "update Updating", "keep UpToDate"},
		},
		"more are desired": {
			change: func(w *world, _ []*clusterv1.Machine) { w.md.Spec.Replicas = new(int32(4)) },
			want:   []string{"create Missing", "keep UpToDate", "keep UpToDate", "keep UpToDate"},
		},
		"the first that is not updated leaves": {
			change: func(w *world, machines []*clusterv1.Machine) {
				toVersion("v1.31.0")(w.md)
				w.md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable.IntVal = 2
				updating(machines[0])
			},
			want: []string{"update Updating", "update Turn", "wait Budget"},
		},
		"an unavailable Machine is kept and leaves first": {
			keep: true,
			change: func(w *world, machines []*clusterv1.Machine) {
				toVersion("v1.31.0")(w.md)
				w.set(machines[2], false)
			},
			want: []string{"wait Budget", "wait Budget", "update Turn"},
		},
		"a Machine without a Node is kept and waits": {
			keep: true,
			change: func(w *world, machines []*clusterv1.Machine) {
				toVersion("v1.31.0")(w.md)
				w.md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable.IntVal = 3
				withoutNode(machines[0])
				machines[0].CreationTimestamp = metav1.NewTime(epoch)
			},
			want: []string{"wait NotProvisioned", "update Turn", "update Turn"},
		},
		"a kept Machine that gets no Node waits for a person": {
			keep: true,
			change: func(w *world, machines []*clusterv1.Machine) {
				toVersion("v1.31.0")(w.md)
				w.md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable.IntVal = 3
				withoutNode(machines[0])
				machines[0].CreationTimestamp = metav1.NewTime(epoch.Add(-20 * time.Minute))
			},
			want: []string{"wait NodeMissing", "update Turn", "update Turn"},
		},
		"a kubelet that reports no version has that of its Machine": {
			keep: true,
			change: func(w *world, machines []*clusterv1.Machine) {
				toVersion("v1.31.0")(w.md)
				machines[0].Status.NodeInfo.KubeletVersion = ""
			},
			want: []string{"update Turn", "wait Budget", "wait Budget"},
		},
		"kept Machines are too many": {
			keep: true,
			change: func(w *world, machines []*clusterv1.Machine) {
				toVersion("v1.31.0")(w.md)
				w.md.Spec.Replicas = new(int32(2))
				w.set(machines[2], false)
			},
			want: []string{"delete Surplus", "wait Budget", "wait Budget"},
		},
		"kept Machines are too many, and one is being updated": {
			keep: true,
			change: func(w *world, machines []*clusterv1.Machine) {
				toVersion("v1.31.0")(w.md)
				w.md.Spec.Replicas = new(int32(0))
				updating(machines[0])
			},
			want: []string{"delete Surplus", "delete Surplus", "delete Surplus"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := settledGroup(t, test.keep)
			var machines []*clusterv1.Machine
			for _, name := range w.names() {
				machines = append(machines, w.machines[name])
			}
			if test.change != nil {
				test.change(w, machines)
			}
			w.reconcile(t)
			var got []string
			for _, d := range w.plan.Decisions {
				got = append(got, string(d.Action)+" "+string(d.Reason))
			}
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Errorf("the decisions differ (-want +got):\n%s%s", diff, w)
			}
			if !slices.IsSortedFunc(w.plan.Decisions, func(a, b pool.Decision) int {
				return strings.Compare(a.Machine, b.Machine)
			}) {
				t.Errorf("the decisions are not sorted: %v", w.plan.Decisions)
			}
		})
	}
}

// TestDecisionsOfSets: Machines of several MachineSets are sorted by their own names.
func TestDecisionsOfSets(t *testing.T) {
	t.Parallel()
	w := settledGroup(t, false)
	first := w.names()[0]
	toVersion("v1.31.0")(w.md)
	w.md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge.IntVal = 1
	w.covered["v1.31.0"] = pool.AnswerNo
	w.settle(t)
	// A Machine of an old MachineSet whose name is between those of the new one.
	m := w.machines[w.names()[1]].DeepCopy()
	m.Name = w.names()[0] + "-old"
	old := w.sets[slices.Sorted(mapKeys(w.sets))[0]].DeepCopy()
	old.Name, old.UID = "zz-old", "zz-old"
	old.Spec.Template.Spec.Version = "v1.29.0"
	*old.Spec.Replicas = 1
	w.sets[old.Name], w.machines[m.Name] = old, m
	w.own(m, old)
	w.reconcile(t)
	var names []string
	for _, d := range w.plan.Decisions {
		names = append(names, d.Machine)
	}
	if !slices.IsSorted(names) || !slices.Contains(names, m.Name) || slices.Contains(names, first) {
		t.Errorf("the decisions are about %q", names)
	}
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// TestNeverMessage: a person reads why a Machine cannot move.
func TestNeverMessage(t *testing.T) {
	t.Parallel()
	w := settledGroup(t, true)
	withoutNode(w.machines[w.names()[0]])
	w.machines[w.names()[0]].CreationTimestamp = metav1.NewTime(epoch)
	withoutNode(w.machines[w.names()[2]])
	w.machines[w.names()[2]].CreationTimestamp = metav1.Time{}
	w.machines[w.names()[1]].Status.NodeInfo.KubeletVersion = "v1.32.0"
	toVersion("v1.31.0")(w.md)
	w.reconcile(t)
	for i, want := range []string{
		"the Machine has no Node yet",
		"the kubelet of the Machine is newer than spec.template asks, or its version is unknown",
		"the Machine has no Node since its creation at 0001-01-01T00:00:00Z",
	} {
		if got := w.plan.Decisions[i].Message; !strings.HasPrefix(got, want) {
			t.Errorf("the message is %q, want %q", got, want)
		}
	}
}

// TestOnDeleteMessage: a person reads how to replace a Machine. In a kept group the guard refuses
// that without an annotation.
func TestOnDeleteMessage(t *testing.T) {
	t.Parallel()
	for keep, want := range map[bool]string{
		false: "the strategy is OnDelete. Fix: delete the Machine when it may be replaced",
		true: "the strategy is OnDelete. Fix: set the annotation windlass.dev/allow-replacement on the " +
			"Machine and delete it when it may be replaced",
	} {
		w := settledGroup(t, keep)
		w.md.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
		toVersion("v1.31.0")(w.md)
		w.reconcile(t)
		if got := w.plan.Decisions[0]; got.Message != want || got.Reason != pool.ReasonOnDelete {
			t.Errorf("kept: %t: the decision is %+v, want %q", keep, got, want)
		}
	}
}

// TestKeepNotes: why MachineSets of a kept group change.
func TestKeepNotes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change   func(w *world)
		previous []pool.NoteReason
	}{
		"a Machine moves": {
			change:   func(*world) {},
			previous: []pool.NoteReason{pool.ReasonMove},
		},
		"nothing may move": {change: func(w *world) { w.covered["v1.31.0"] = pool.AnswerNo }},
		"fewer are desired": {
			change:   func(w *world) { w.md.Spec.Replicas = new(int32(2)) },
			previous: []pool.NoteReason{pool.ReasonReplicasLowered},
		},
		"a Machine is gone": {
			change: func(w *world) {
				w.covered["v1.31.0"] = pool.AnswerNo
				w.delete(w.machines[w.names()[0]])
				w.setOf("v1.30.0").Annotations[clusterv1.DisableMachineCreateAnnotation] = "true"
			},
			previous: []pool.NoteReason{pool.ReasonMachinesGone},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := settledGroup(t, true)
			w.covered["v1.31.0"] = pool.AnswerNo
			toVersion("v1.31.0")(w.md)
			w.settle(t) // the new MachineSet exists and has no Machine
			w.covered["v1.31.0"] = pool.AnswerYes
			test.change(w)
			w.reconcile(t)
			if diff := gocmp.Diff(test.previous, reasonsOf(w.plan.Old[0].Notes)); diff != "" {
				t.Errorf("notes of the old MachineSet (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKeepLowersNewest: a new MachineSet with too many Machines says so.
func TestKeepLowersNewest(t *testing.T) {
	t.Parallel()
	w := settledGroup(t, true)
	w.reconcile(t)
	if got := reasonsOf(w.plan.New.Notes); got != nil {
		t.Errorf("a group that does not change has the notes %v", got)
	}
	w.md.Spec.Replicas = new(int32(1))
	w.reconcile(t)
	want := []pool.NoteReason{pool.ReasonReplicasLowered}
	if diff := gocmp.Diff(want, reasonsOf(w.plan.New.Notes)); diff != "" {
		t.Errorf("the notes differ (-want +got):\n%s", diff)
	}
}

func reasonsOf(notes []pool.Note) []pool.NoteReason {
	var reasons []pool.NoteReason
	for _, n := range notes {
		reasons = append(reasons, n.Reason)
	}
	return reasons
}

// TestKeepReceives: an old MachineSet of a kept group receives from all others, and not from
// itself.
func TestKeepReceives(t *testing.T) {
	t.Parallel()
	w := settledGroup(t, true)
	old := w.setOf("v1.30.0").Name
	w.covered["v1.31.0"] = pool.AnswerNo
	toVersion("v1.31.0")(w.md)
	w.settle(t)
	newest := w.setOf("v1.31.0").Name
	const key = clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation
	if got := w.sets[old].Annotations[key]; got != newest {
		t.Errorf("the old MachineSet receives from %q, want %q", got, newest)
	}
	if got := w.sets[newest].Annotations[key]; got != old {
		t.Errorf("the new MachineSet receives from %q, want %q", got, old)
	}
}

// TestKeepWithoutNewest: without templates, or while paused, a kept group with a new template has
// no new MachineSet. The newest old MachineSet then creates what is missing, and only that.
func TestKeepWithoutNewest(t *testing.T) {
	t.Parallel()
	for missing, want := range map[int]int32{0: 3, 1: 3} {
		w := settledGroup(t, true)
		toVersion("v1.31.0")(w.md)
		w.md.Spec.Paused = new(true)
		for range missing {
			w.delete(w.machines[w.names()[0]])
		}
		w.reconcile(t)
		if w.plan.New != nil {
			t.Fatal("a paused group gets a MachineSet")
		}
		got := w.plan.Old[0]
		creates := got.Desired.Annotations[clusterv1.DisableMachineCreateAnnotation] != "true"
		if *got.Desired.Spec.Replicas != want || creates != (missing > 0) {
			t.Errorf("%d missing: %d replicas, creates: %v", missing, *got.Desired.Spec.Replicas, creates)
		}
	}
	w := newWorld(3, 0, 1)
	w.keep = true
	w.md.Spec.Paused = new(true)
	w.reconcile(t)
	if len(w.plan.Sets()) != 0 {
		t.Errorf("a paused group without MachineSets has the plan %+v", w.plan)
	}
}

// TestKeepStaysWithItsPlan: while an old MachineSet has not observed that it has to give a Machine,
// the plan stays, and grows by no other Machine.
func TestKeepStaysWithItsPlan(t *testing.T) {
	t.Parallel()
	w := settledGroup(t, true)
	w.covered["v1.31.0"] = pool.AnswerNo
	toVersion("v1.31.0")(w.md)
	w.settle(t)
	w.covered["v1.31.0"] = pool.AnswerYes
	w.reconcile(t)
	for _, test := range []struct{ unavailable, observed, want int64 }{{1, 1, 2}, {2, 1, 2}, {2, 2, 1}} {
		old := w.setOf("v1.30.0")
		old.Generation, old.Status.ObservedGeneration = 2, test.observed
		w.md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable =
			new(intstr.FromInt32(int32(test.unavailable)))
		w.reconcile(t)
		old = w.setOf("v1.30.0")
		target := old.Annotations[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation]
		if int64(*old.Spec.Replicas) != test.want || target != w.setOf("v1.31.0").Name {
			t.Errorf("%+v: the old MachineSet has %d replicas and gives to %s", test, *old.Spec.Replicas, target)
		}
	}
}

// TestPausedMachine: a Machine that is paused does not move, because its update could not begin and would
// take the turn of the others. The group says why it waits.
func TestPausedMachine(t *testing.T) {
	t.Parallel()
	w := settledGroup(t, true)
	paused := w.machines[w.names()[0]]
	metav1.SetMetaDataAnnotation(&paused.ObjectMeta, clusterv1.PausedAnnotation, "")
	toVersion("v1.31.0")(w.md)
	w.settle(t)
	if pool.IsUpdating(paused) {
		t.Errorf("the paused Machine has moved:\n%s", w)
	}
	if got := w.upToDate(); got != 2 {
		t.Errorf("%d Machines are up to date, want 2:\n%s", got, w)
	}
	w.checkBlocked(t, pool.ReasonMachinePaused)
	delete(paused.Annotations, clusterv1.PausedAnnotation)
	w.settle(t)
	if got := w.upToDate(); got != 3 {
		t.Errorf("%d Machines are up to date after the pause, want 3:\n%s", got, w)
	}
}

// TestRolloutAfterRemoved: a kept group that spec.rollout.after blocks and that is scaled gets
// Machines of a second MachineSet of its template. When rollout.after is removed nothing blocks the
// group.
func TestRolloutAfterRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(2, 0, 1)
	w.keep = true
	w.settle(t)
	w.md.Spec.Rollout.After = metav1.NewTime(w.group().Now.Add(time.Second))
	w.clock += 2
	*w.md.Spec.Replicas = 5
	w.settle(t)
	if b := w.plan.Blocked(); b == nil || b.Reason != pool.ReasonRecreateRequested || len(w.sets) != 2 {
		t.Fatalf("the group is blocked by %+v:\n%s", b, w)
	}
	before := w.names()
	w.md.Spec.Rollout.After = metav1.Time{}
	w.limits = &pool.Limits{
		Partition: intstr.FromInt32(2),
		Order:     policy.Order{Labels: []string{"rack"}, OneAtATime: true},
	}
	w.settle(t)
	// Both MachineSets have the template, so nothing is left to do.
	if p := w.progress(t); p.Touched != 5 || p.Done != 5 || p.Turn != nil {
		t.Errorf("the progress is %+v:\n%s", p, w)
	}
	if r := w.plan.Allowance.Reason; r != "" {
		t.Errorf("moves are held by %s:\n%s", r, w)
	}
	if b := w.plan.Blocked(); b != nil {
		t.Errorf("the group is still blocked: %+v:\n%s", b, w)
	}
	for _, d := range w.plan.Decisions {
		if d.Action != pool.Keep || d.Reason != pool.ReasonUpToDate {
			t.Errorf("Machine %s: %s, %s", d.Machine, d.Action, d.Reason)
		}
	}
	if diff := gocmp.Diff(before, w.names()); diff != "" {
		t.Errorf("Machines were created or deleted (-before +after):\n%s", diff)
	}
	// The next template takes the Machines of both, but for the partition.
	w.covered["v1.31.0"] = pool.AnswerYes
	toVersion("v1.31.0")(w.md)
	w.settle(t)
	if got := w.upToDate(); got != 3 {
		t.Errorf("%d Machines are at the next template, want 3:\n%s", got, w)
	}
}
