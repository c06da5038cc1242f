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
	"github.com/windlass-dev/windlass/internal/policy"
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
		"one place at a time":  {limits: pool.Limits{Order: policy.Order{Labels: []string{"rack"}, OneAtATime: true}}, want: 2},
	} {
		test.limits.MaxInFlight = 2
		w := keptGroup(t, 9, 5, &test.limits)
		w.settle(t)
		if got := w.updating(); len(got) != test.want {
			t.Errorf("%s: %q have moved, want %d: %+v", name, got, test.want, w.plan.Allowance)
		}
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
			if w.limits != nil {
				f.Policy = policy.Policy(*w.limits)
				f.Policy.Name = "p"
			}
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

// TestNewerKubeletGoesFirst: under an UpdatePolicy that allows replacement, a Machine whose kubelet is
// newer than the template is replaced first. The others are then updated in place.
func TestNewerKubeletGoesFirst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy policy.Policy
		want   pool.Reason
	}{
		"with a policy":            {policy.Policy{Name: "p"}, pool.ReasonKubeletAhead},
		"with one that keeps them": {policy.Policy{Name: "p", Guarded: true}, pool.ReasonAge},
		"without":                  {policy.Policy{}, pool.ReasonAge},
	} {
		w := newWorld(3, 0, 1)
		w.settle(t)
		names := w.names()
		ahead := w.machines[names[2]]
		ahead.Status.NodeInfo = kubelet("v1.32.0")
		w.md.Spec.Template.Spec.Version = "v1.31.0"
		f := w.facts(w.setOf("v1.30.0"))
		f.Policy = test.policy
		first := f.Order(pool.RandomFirst)[0]
		checkFailed(w.machines[names[0]])
		if sick := f.Order(pool.RandomFirst)[0]; sick.Reason != pool.ReasonUnhealthy {
			t.Errorf("%s: Machine %s goes before one that is unhealthy", name, sick.Machine.Name)
		}
		if isAhead := first.Machine == ahead; first.Reason != test.want || isAhead != (test.want != pool.ReasonAge) {
			t.Errorf("%s: Machine %s goes first (%s)", name, first.Machine.Name, first.Reason)
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
