package pool_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
)

// keptGroup is a group at rest whose Machines are kept, and whose updates to v1.31.0 never end.
func keptGroup(t *testing.T, replicas, unavailable int32, limits *pool.Limits) *world {
	t.Helper()
	w := newWorld(replicas, 0, unavailable)
	w.keep = true
	w.covered["v1.31.0"] = pool.AnswerYes
	w.settle(t)
	w.limits, w.fails, w.md.Spec.Template.Spec.Version = limits, "v1.31.0", "v1.31.0"
	return w
}

// updating are the Machines that are being updated, or whose update failed.
func (w *world) updating() []string {
	return slices.DeleteFunc(w.names(), func(name string) bool { return !pool.IsUpdating(w.machines[name]) })
}

// failUpdate has the update of a Machine fail finally.
func (w *world) failUpdate(name string) {
	conditions.Set(w.machines[name], metav1.Condition{
		Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionTrue,
		Reason: clusterv1.MachineInPlaceUpdateFailedReason,
	})
}

// endUpdate has the update of a Machine end well.
func (w *world) endUpdate(name string) {
	m := w.machines[name]
	delete(m.Annotations, clusterv1.UpdateInProgressAnnotation)
	m.Spec.Version, m.Status.NodeInfo = "v1.31.0", kubelet("v1.31.0")
	w.set(m, true)
}

// TestMovesWithinMaxInFlight: no more Machines move than may be updated. Those that had moved
// before the rollout is held would begin all the same.
func TestMovesWithinMaxInFlight(t *testing.T) {
	t.Parallel()
	limits := &pool.Limits{MaxInFlight: 2, MaxFailures: 2}
	w := keptGroup(t, 20, 10, limits)
	w.settle(t)
	first := w.updating()
	if a := w.plan.Allowance; len(first) != 2 || a.Reason != pool.ReasonMaxInFlight {
		t.Fatalf("%q are updated at once: %+v", first, a)
	}
	w.endUpdate(first[0])
	w.settle(t)
	if now := w.updating(); len(now) != 2 || !slices.Contains(now, first[1]) {
		t.Fatalf("%q are updated after %s", now, first[0])
	}
	// A Machine whose update failed keeps its place, as in the queue of the engine.
	w.failUpdate(first[1])
	w.settle(t)
	if now := w.updating(); len(now) != 2 {
		t.Fatalf("%q are updated beside one that failed", now)
	}
	for _, name := range w.updating() {
		w.failUpdate(name)
	}
	w.settle(t)
	if a := w.plan.Allowance; len(w.updating()) != 2 || a.Reason != pool.ReasonMaxFailures {
		t.Errorf("%q after two failures: %+v", w.updating(), a)
	}
}

// TestUpdaterChooses: without a limit that may hold the rollout, as many Machines move as may be
// unavailable, so that the updater can choose which of them begin.
func TestUpdaterChooses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limits pool.Limits
		want   int
	}{
		"nothing holds":        {want: 5},
		"maxFailures":          {limits: pool.Limits{MaxFailures: 1}, want: 2},
		"a machine's deadline": {limits: pool.Limits{MachineDeadline: time.Hour}, want: 2},
		"the group's deadline": {limits: pool.Limits{GroupDeadline: time.Hour}, want: 2},
		"batches":              {limits: pool.Limits{Batches: []intstr.IntOrString{intstr.FromInt32(9)}}, want: 2},
		"one place at a time":  {limits: pool.Limits{Order: pool.Order{Labels: []string{"rack"}, OneAtATime: true}}, want: 2},
	} {
		test.limits.MaxInFlight = 2
		w := keptGroup(t, 9, 5, &test.limits)
		w.settle(t)
		if got := w.updating(); len(got) != test.want {
			t.Errorf("%s: %q have moved, want %d: %+v", name, got, test.want, w.plan.Allowance)
		}
	}
}

// TestScalingEndsNoCanary: Machines that are created because people scale a kept group prove
// nothing about the update, whatever becomes of the canary.
func TestScalingEndsNoCanary(t *testing.T) {
	t.Parallel()
	w := keptGroup(t, 5, 3, &pool.Limits{Canary: intstr.FromInt32(1)})
	w.settle(t)
	canary := w.updating()
	if len(canary) != 1 {
		t.Fatalf("the canary is %q", canary)
	}
	scale := func(replicas int32) {
		t.Helper()
		w.md.Spec.Replicas = &replicas
		w.settle(t)
		for _, name := range w.created {
			if m := w.machines[name]; m != nil && !m.Status.NodeRef.IsDefined() {
				m.Status.NodeRef.Name, m.Status.NodeInfo = name, kubelet("v1.31.0")
				w.set(m, true)
			}
		}
		w.settle(t)
		if got := w.updating(); !slices.Equal(got, canary) || len(w.machines) != int(replicas) {
			t.Fatalf("with %d replicas %q are updated: %+v\n%s", replicas, got, w.plan.Allowance, w)
		}
	}
	scale(7)
	w.failUpdate(canary[0])
	scale(9)
	if a := w.plan.Allowance; a.Reason != pool.ReasonCanaryFailed {
		t.Errorf("the canary failed: %+v", a)
	}
	w.machines[canary[0]].Status.Conditions = nil
	w.endUpdate(canary[0])
	w.settle(t)
	if n := len(w.updating()); n < 2 {
		t.Errorf("%d are updated after the canary: %+v", n, w.plan.Allowance)
	}
}

// TestScalingEndsNoBatch: Machines that are created because people scale a kept group take the place
// of none that is to be done before the next batch.
func TestScalingEndsNoBatch(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		w := keptGroup(t, 8, 6, &pool.Limits{Batches: []intstr.IntOrString{intstr.FromInt32(2)}})
		w.settle(t)
		first := w.updating()
		if len(first) != 2 {
			t.Fatalf("the first batch is %q", first)
		}
		w.endUpdate(first[0])
		if fails {
			w.failUpdate(first[1])
		}
		for replicas := range int32(3) {
			w.md.Spec.Replicas = new(9 + replicas)
			w.settle(t)
			for _, m := range w.machines {
				if !m.Status.NodeRef.IsDefined() {
					m.Status.NodeRef.Name, m.Status.NodeInfo = m.Name, kubelet("v1.31.0")
					w.set(m, true)
				}
			}
			w.settle(t)
			reason := map[bool]pool.Reason{false: pool.ReasonBatch, true: pool.ReasonBatchFailed}[fails]
			if now := w.updating(); len(now) != 1 || w.plan.Allowance.Reason != reason {
				t.Fatalf("with %d replicas %q are updated: %+v\n%s", 9+replicas, now, w.plan.Allowance, w)
			}
		}
		w.machines[first[1]].Status.Conditions = nil
		w.endUpdate(first[1])
		w.settle(t)
		if now := w.updating(); len(now) != 2 {
			t.Errorf("%q are updated in the second batch: %+v", now, w.plan.Allowance)
		}
	}
}

// TestYoungMachinesAreCanaries: if the template changes back to one that was reverted, Machines that
// were created in between are canaries when they move.
func TestYoungMachinesAreCanaries(t *testing.T) {
	t.Parallel()
	w := keptGroup(t, 6, 5, &pool.Limits{Canary: intstr.FromInt32(2)})
	conditions.Set(w.md, metav1.Condition{
		Type: clusterv1.MachineDeploymentRollingOutCondition, Status: metav1.ConditionTrue, Reason: "Test",
		LastTransitionTime: metav1.NewTime(epoch.Add(time.Duration(w.clock) * time.Second)),
	})
	w.settle(t)
	first := w.updating()
	if len(first) != 1 {
		t.Fatalf("%q begin", first)
	}
	w.endUpdate(first[0])
	w.md.Spec.Template.Spec.Version = "v1.30.0"
	w.settle(t)
	for _, name := range w.names() {
		if name != first[0] {
			w.delete(w.machines[name])
		}
	}
	w.settle(t)
	w.md.Spec.Template.Spec.Version = "v1.31.0"
	w.settle(t)
	if n := len(w.updating()); n != 1 {
		t.Errorf("%d begin beside %s, and the canary has 2: %+v\n%s", n, first[0], w.plan.Allowance, w)
	}
}

// TestLateMachinesAreCanaries: Machines are canaries when they move, although an old MachineSet has
// created them after the new one was there.
func TestLateMachinesAreCanaries(t *testing.T) {
	t.Parallel()
	w := keptGroup(t, 3, 5, &pool.Limits{Canary: intstr.FromInt32(1)})
	w.md.Spec.Template.Spec.Version = "v1.30.0"
	w.md.Spec.Replicas = new(int32(6))
	w.reconcile(t) // The old MachineSet is told to create 3 Machines.
	old := w.setOf("v1.30.0")
	old.Generation = 1
	w.md.Spec.Template.Spec.Version = "v1.31.0"
	w.reconcile(t)
	for range 3 {
		w.create(w.setOf("v1.30.0"))
		last := w.created[len(w.created)-1]
		m := w.machines[last]
		delete(w.machines, last)
		m.Name = "first-" + last // It moves before the others.
		w.machines[m.Name], w.fails = m, ""
		w.work(m)
	}
	w.setOf("v1.30.0").Generation, w.fails = 0, "v1.31.0"
	w.settle(t)
	if n := len(w.updating()); n != 1 || len(w.machines) != 6 {
		t.Errorf("%d begin, and the canary has 1: %+v\n%s", n, w.plan.Allowance, w)
	}
}

// TestUpdatedByAge: a Machine that is older than the rollout was updated, and a younger one was
// created. The MachineSet tells when the rollout began, unless it is reused, or all objects were
// created anew in another management cluster.
func TestUpdatedByAge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		elder, reused bool
		rolling       metav1.ConditionStatus
		want          int32
	}{
		"one is older than the MachineSet": {elder: true, rolling: metav1.ConditionTrue, want: 1},
		"the MachineSet is reused": {
			elder: true, reused: true, rolling: metav1.ConditionTrue, want: 2,
		},
		"all are as young as the MachineSet":  {rolling: metav1.ConditionTrue, want: 2},
		"there has been no rollout":           {rolling: metav1.ConditionFalse},
		"nobody knows whether there has been": {rolling: metav1.ConditionUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := keptGroup(t, 2, 1, &pool.Limits{})
			w.md.Spec.Template.Spec.Version = "v1.30.0"
			set := w.setOf("v1.30.0")
			if test.elder {
				w.machines[w.names()[0]].CreationTimestamp = metav1.NewTime(set.CreationTimestamp.Add(-time.Hour))
			}
			if test.reused {
				set.Annotations["machinedeployment.clusters.x-k8s.io/revision-history"] = "1"
			}
			conditions.Set(w.md, metav1.Condition{
				Type: clusterv1.MachineDeploymentRollingOutCondition, Status: test.rolling, Reason: "Test",
				LastTransitionTime: metav1.NewTime(epoch.Add(1000 * time.Second)),
			})
			if p := w.progress(t); p.Done != 2 || p.Updated != test.want {
				t.Errorf("%+v, want %d updated\n%s", p, test.want, w)
			}
		})
	}
}

// TestRefusedKeepNoPlace: a Machine whose update does not begin before a person acts keeps no place
// in maxInFlight: the engine of updates gives its place to another one.
func TestRefusedKeepNoPlace(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		refuse func(m *clusterv1.Machine)
		want   int
	}{
		"it is paused":  {func(m *clusterv1.Machine) { m.Annotations[clusterv1.PausedAnnotation] = "" }, 2},
		"it is refused": {func(m *clusterv1.Machine) { blockedMachine(m) }, 2},
		"it has begun and failed": {func(m *clusterv1.Machine) {
			blockedMachine(m)
			m.Annotations[v1alpha1.UpdateProgressAnnotation] = `{"phase":"Failed"}`
		}, 1},
		"it waits": {func(*clusterv1.Machine) {}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := keptGroup(t, 5, 3, &pool.Limits{MaxInFlight: 1, MaxFailures: 3})
			w.settle(t)
			test.refuse(w.machines[w.updating()[0]])
			w.settle(t)
			if got := w.updating(); len(got) != test.want {
				t.Errorf("%q are updated, want %d: %+v", got, test.want, w.plan.Allowance)
			}
		})
	}
}

func blockedMachine(m *clusterv1.Machine) {
	conditions.Set(m, metav1.Condition{
		Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionTrue, Reason: "Test",
	})
}

// TestReplacedProve: where Machines may be replaced, those that were prove the change, also for one
// whose update fails later. The plan and the MachineSet agree whether that one is a canary.
func TestReplacedProve(t *testing.T) {
	t.Parallel()
	l := pool.Limits{Canary: intstr.FromInt32(1)}
	p := pool.Progress{Replicas: 5, Touched: 2, Done: 1, Failed: []string{"a"}}
	if a := l.Allow(p); a.More != 3 || l.IsCanary(p) {
		t.Errorf("%+v, canary: %t", a, l.IsCanary(p))
	}
	p.Kept = true
	if a := l.Allow(p); a.Reason != pool.ReasonCanaryFailed || !l.IsCanary(p) {
		t.Errorf("kept: %+v, canary: %t", a, l.IsCanary(p))
	}
}

// TestNoKubeletGoesBack: under an UpdatePolicy that allows replacement, Machines whose kubelets are
// newer than the template are replaced, although an updater would take them back. Without a policy
// they are taken back, as by stock.
func TestNoKubeletGoesBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limits  *pool.Limits
		kubelet string
		moves   bool
	}{
		"with a policy":                   {&pool.Limits{}, "v1.31.0", false},
		"the status is behind the update": {&pool.Limits{}, "v1.30.0", false},
		"without":                         {nil, "v1.31.0", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(3, 0, 1)
			w.md.Spec.Template.Spec.Version = "v1.31.0"
			w.settle(t)
			before := w.names()
			for _, m := range w.machines {
				m.Status.NodeInfo = kubelet(test.kubelet)
				m.Annotations = map[string]string{v1alpha1.LastUpdateAnnotation: `{"to":"v1.31.0"}`}
			}
			w.limits, w.covered["v1.30.0"] = test.limits, pool.AnswerYes
			w.md.Spec.Template.Spec.Version = "v1.30.0"
			w.reconcile(t)
			set := w.setOf("v1.31.0")
			_, moves := set.Annotations[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation]
			if moves != test.moves || *set.Spec.Replicas != 2 {
				t.Errorf("Machines move: %t, want %t:\n%s", moves, test.moves, w)
			}
			w.settle(t)
			for _, name := range before {
				if m := w.machines[name]; (m != nil) != test.moves {
					t.Errorf("Machine %s exists: %t, want %t", name, m != nil, test.moves)
				}
			}
		})
	}
}

// TestUpdateEndsAfterRevert: the plan that follows a revert moves the Machine whose update to the
// newer version continues. When that ends first, the Machine stays.
func TestUpdateEndsAfterRevert(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limits *pool.Limits
		moves  int
	}{"with a policy": {&pool.Limits{}, 0}, "without": {nil, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(3, 0, 1)
			w.covered["v1.31.0"], w.covered["v1.30.0"] = pool.AnswerYes, pool.AnswerYes
			w.settle(t)
			w.limits, w.fails, w.md.Spec.Template.Spec.Version = test.limits, "v1.31.0", "v1.31.0"
			w.settle(t)
			first := w.updating()
			if len(first) != 1 {
				t.Fatalf("%q are updated", first)
			}
			w.md.Spec.Template.Spec.Version = "v1.30.0"
			w.reconcile(t)
			set := w.setOf("v1.31.0")
			if !pool.Sends(set) {
				t.Fatalf("it is not told to move:\n%s", w)
			}
			w.endUpdate(first[0])
			m := w.machines[first[0]]
			m.Annotations[v1alpha1.LastUpdateAnnotation] = `{"to":"v1.31.0"}`
			f := w.facts(set)
			f.Policy.Limits = w.limits
			leave, err := f.Departures(1)
			if err != nil || len(leave) != test.moves {
				t.Errorf("%d Machines leave, want %d, error %v\n%s", len(leave), test.moves, err, w)
			}
		})
	}
}

// TestBrokenUpdateHoldsNoOther: if the template changes while a Machine is unhealthy in its update,
// the rollout deletes that one first, although it takes the last place in maxInFlight.
func TestBrokenUpdateHoldsNoOther(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer pool.Answer
		broken bool
		want   int32
	}{
		"the next change is covered": {pool.AnswerYes, true, 0},
		"it is not covered":          {pool.AnswerNo, true, 0},
		"the Machine is healthy":     {pool.AnswerYes, false, 1},
	} {
		w := newWorld(3, 0, 1)
		w.covered["v1.31.0"], w.covered["v1.32.0"] = pool.AnswerYes, test.answer
		w.settle(t)
		w.limits = &pool.Limits{MaxInFlight: 1, Batches: []intstr.IntOrString{intstr.FromInt32(1)}}
		w.fails, w.md.Spec.Template.Spec.Version = "v1.31.0", "v1.31.0"
		w.settle(t)
		first := w.updating()
		if len(first) != 1 {
			t.Fatalf("%q are updated", first)
		}
		if test.broken {
			toRemediate(w.machines[first[0]])
		}
		w.md.Spec.Template.Spec.Version = "v1.32.0"
		w.reconcile(t)
		w.reconcile(t)
		broken, others := *w.setOf("v1.31.0").Spec.Replicas, *w.setOf("v1.30.0").Spec.Replicas
		if broken != test.want || others != 2 {
			t.Errorf("%s: %d and %d stay, want %d and 2: %+v\n%s", name, broken, others, test.want,
				w.plan.Allowance, w)
		}
	}
}

// TestScaleDownBesideMoves: the limits keep nobody from scaling a group down whose Machines are updated
// in place and may be replaced. The Machine that is being updated stays, and no other one moves.
func TestScaleDownBesideMoves(t *testing.T) {
	t.Parallel()
	one := intstr.FromInt32(1)
	for name, limits := range map[string]*pool.Limits{
		"a canary": {Canary: one}, "a batch": {Batches: []intstr.IntOrString{one}},
		"maxInFlight": {MaxInFlight: 1, MaxFailures: 1}, "a partition": {Partition: intstr.FromInt32(4)},
	} {
		for replicas := int32(2); replicas < 10; replicas++ {
			w := newWorld(10, 0, 1)
			w.covered["v1.31.0"] = pool.AnswerYes
			w.settle(t)
			w.limits, w.fails, w.md.Spec.Template.Spec.Version = limits, "v1.31.0", "v1.31.0"
			w.settle(t)
			first := w.updating()
			w.md.Spec.Replicas = &replicas
			w.settle(t)
			now := w.updating()
			if len(first) != 1 || !slices.Equal(now, first) || len(w.machines) != int(replicas) {
				t.Errorf("%s, %d replicas: %q and %q are updated: %+v\n%s", name, replicas, first, now,
					w.plan.Allowance, w)
			}
		}
	}
}

// TestManyMachineSets: a blocked group gets a MachineSet with each change of its template. Its marks
// name those that have Machines.
func TestManyMachineSets(t *testing.T) {
	t.Parallel()
	w := keptGroup(t, 3, 1, nil)
	w.covered["v1.31.0"] = pool.AnswerNo
	w.settle(t)
	with, empty := w.setOf("v1.30.0"), w.setOf("v1.31.0")
	g := w.group()
	for i := range 10_000 {
		set := empty.DeepCopy()
		set.Name = fmt.Sprintf("md-%05d", 10_000+i)
		set.Spec.Template.Spec.Version = fmt.Sprintf("v1.32.%d", i)
		set.Labels = map[string]string{clusterv1.MachineDeploymentUniqueLabel: set.Name}
		g.MachineSets = append(g.MachineSets, set)
	}
	plan, err := pool.Decide(g, map[string]pool.Coverage{})
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range plan.Sets() {
		want := with.Name
		if set.Desired.Name == with.Name {
			want = ""
		}
		got := set.Desired.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation]
		if got != want {
			t.Fatalf("MachineSet %s receives from %.99q, want %q", set.Desired.Name, got, want)
		}
	}
}

// TestFirstCanaryAlone: of several canaries one is updated alone. If it fails, it is the only Machine
// that was touched.
func TestFirstCanaryAlone(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		w := keptGroup(t, 9, 5, &pool.Limits{Canary: intstr.FromInt32(4), MaxInFlight: 5})
		w.settle(t)
		first := w.updating()
		if len(first) != 1 {
			t.Fatalf("%q are updated at first: %+v", first, w.plan.Allowance)
		}
		want := 3
		if fails {
			w.failUpdate(first[0])
			want = 1
		} else {
			w.endUpdate(first[0])
		}
		w.settle(t)
		if got := w.updating(); len(got) != want {
			t.Errorf("fails: %t: %q are updated, want %d: %+v", fails, got, want, w.plan.Allowance)
		}
	}
}

// TestUnreadableKubelet: nothing is replaced because the version of a kubelet, or the record of the
// last update, cannot be read.
func TestUnreadableKubelet(t *testing.T) {
	t.Parallel()
	w := newWorld(2, 0, 1)
	w.settle(t)
	w.limits, w.covered["v1.31.0"] = &pool.Limits{}, pool.AnswerYes
	for _, m := range w.machines {
		m.Status.NodeInfo = kubelet("main")
		m.Annotations = map[string]string{v1alpha1.LastUpdateAnnotation: "{"}
	}
	w.md.Spec.Template.Spec.Version = "v1.31.0"
	w.reconcile(t)
	marks := w.setOf("v1.30.0").Annotations
	if marks[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation] == "" {
		t.Errorf("no Machine moves: %v", w.plan.Decisions)
	}
}

// TestStuckDeletionHoldsNoMoves: a Machine whose deletion takes long, because somebody scaled the group
// down, holds no updates in place.
func TestStuckDeletionHoldsNoMoves(t *testing.T) {
	t.Parallel()
	for _, stuck := range []bool{true, false} {
		w := newWorld(5, 0, 2)
		w.covered["v1.31.0"] = pool.AnswerYes
		w.settle(t)
		w.limits = &pool.Limits{Canary: intstr.FromInt32(1)}
		w.md.Spec.Replicas = new(int32(4))
		w.reconcile(t)
		if stuck {
			m := w.machines[w.names()[0]]
			m.DeletionTimestamp = &metav1.Time{Time: epoch}
			w.set(m, false)
		}
		w.md.Spec.Template.Spec.Version = "v1.31.0"
		w.reconcile(t)
		set := w.setOf("v1.30.0")
		if moves := pool.Sends(set) && *set.Spec.Replicas == 3; moves != stuck {
			t.Errorf("stuck: %t, and one moves: %t: %+v\n%s", stuck, moves, w.plan.Allowance, w)
		}
	}
}
