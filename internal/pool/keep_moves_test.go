package pool_test

import (
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
)

// TestScaleOfKeptGroup: where Machines are kept, a MachineSet creates no more than its group lacks. A
// Machine that has just moved away is missing in the MachineSet only.
func TestScaleOfKeptGroup(t *testing.T) {
	t.Parallel()
	a, b, moved := msMachine("a"), msMachine("b", inDeletion(time.Hour)), msMachine("moved")
	complete := pool.Scaling{Action: pool.Keep, Reason: pool.ReasonGroupComplete}
	missing := func(n int) pool.Scaling {
		return pool.Scaling{Action: pool.Create, Count: n, Reason: pool.ReasonMissing}
	}
	for name, test := range map[string]struct {
		replicas int32
		group    []*clusterv1.Machine
		want     pool.Scaling
	}{
		"one has moved":               {2, []*clusterv1.Machine{a, moved}, complete},
		"one is deleted elsewhere":    {2, []*clusterv1.Machine{a, b}, complete},
		"there are too many":          {2, []*clusterv1.Machine{a, b, moved}, complete},
		"one has moved, one is gone":  {3, []*clusterv1.Machine{a, moved}, missing(1)},
		"the group has no other ones": {2, []*clusterv1.Machine{a}, missing(1)},
		"the set lacks fewer":         {5, []*clusterv1.Machine{a}, missing(1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := factsOf(msSet(2), a)
			f.Deployment, f.Group = &clusterv1.MachineDeployment{}, test.group
			f.Deployment.Spec.Replicas = &test.replicas
			f.Policy.Guarded = true
			got, err := f.Scale()
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Errorf("the scaling differs (-want +got):\n%s", diff)
			}
			f.Policy.Guarded = false
			if got, err = f.Scale(); err != nil || f.CountsGroup() || got != missing(1) {
				t.Errorf("where Machines may be replaced: %+v, %v", got, err)
			}
		})
	}
	f := factsOf(msSet(1), a)
	f.Deployment, f.Policy.Guarded = &clusterv1.MachineDeployment{}, true
	if f.CountsGroup() {
		t.Error("a MachineSet that has what it asks for needs the group")
	}
	f = factsOf(msSet(2), a)
	f.Policy.Guarded = true
	if f.CountsGroup() {
		t.Error("a MachineSet without a MachineDeployment needs a group")
	}
}

// TestSurplusOfKeptGroup: where Machines are kept, a MachineSet deletes no more than its group has too
// many, for example because the policy is newer than the plan.
func TestSurplusOfKeptGroup(t *testing.T) {
	t.Parallel()
	a, b, c := msMachine("a"), msMachine("b"), msMachine("c")
	gone, other := msMachine("gone", inDeletion(time.Hour)), msMachine("other")
	deletes := func(n int) pool.Scaling {
		return pool.Scaling{Action: pool.Delete, Count: n, Reason: pool.ReasonSurplus}
	}
	for name, test := range map[string]struct {
		replicas     int32
		owned, group []*clusterv1.Machine
		want         pool.Scaling
	}{
		"none is too many": {
			3, []*clusterv1.Machine{a, b, c}, nil, pool.Scaling{Action: pool.Keep, Reason: pool.ReasonGroupComplete},
		},
		"another one is in deletion": {
			3, []*clusterv1.Machine{a, b, c}, []*clusterv1.Machine{gone},
			pool.Scaling{Action: pool.Keep, Reason: pool.ReasonGroupComplete},
		},
		"some are too many":    {3, []*clusterv1.Machine{a, b, c}, []*clusterv1.Machine{other}, deletes(1)},
		"all are too many":     {1, []*clusterv1.Machine{a, b, c}, nil, deletes(2)},
		"one is in deletion":   {2, []*clusterv1.Machine{a, b, gone}, nil, deletes(1)},
		"one more is too many": {1, []*clusterv1.Machine{a, b, gone}, nil, deletes(2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := factsOf(msSet(1), test.owned...)
			f.Deployment, f.Group = &clusterv1.MachineDeployment{}, append(slices.Clone(test.owned), test.group...)
			f.Deployment.Spec.Replicas = &test.replicas
			f.Policy.Guarded = true
			got, err := f.Scale()
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Errorf("the scaling differs (-want +got):\n%s", diff)
			}
			f.Policy.Guarded = false
			if got, err = f.Scale(); err != nil || got != deletes(2) {
				t.Errorf("where Machines may be replaced: %+v, %v", got, err)
			}
		})
	}
}

// betweenTemplates is a kept group with two Machines at v1.30.0 and one at v1.31.0, whose template has
// become v1.32.0. It returns the MachineSets of the first two.
func betweenTemplates(t *testing.T) (w *world, first, second *clusterv1.MachineSet) {
	t.Helper()
	w = settledGroup(t, true)
	w.covered["v1.31.0"], w.covered["v1.32.0"] = pool.AnswerNo, pool.AnswerNo
	toVersion("v1.31.0")(w.md)
	w.settle(t)
	first, second = w.setOf("v1.30.0"), w.setOf("v1.31.0")
	m := w.machines[w.names()[0]]
	w.own(m, second)
	first.Spec.Replicas, second.Spec.Replicas = new(int32(2)), new(int32(1))
	w.report(first)
	w.report(second)
	toVersion("v1.32.0")(w.md)
	w.settle(t)
	w.covered["v1.32.0"] = pool.AnswerYes
	return w, w.sets[first.Name], w.sets[second.Name]
}

// TestEarlierMoves: no Machine begins to move while another MachineSet may still move some by an earlier
// plan, although that plan is withdrawn. No MachineSet is deleted meanwhile, because Machines may
// still move to it.
func TestEarlierMoves(t *testing.T) {
	t.Parallel()
	const moveTo = clusterv1.MachineSetMoveMachinesToMachineSetAnnotation
	for name, test := range map[string]struct {
		earlier func(w *world, first, second *clusterv1.MachineSet)
		// moving is what the plan returns, begins how many Machines it takes from both MachineSets.
		moving bool
		begins int32
	}{
		"none": {func(*world, *clusterv1.MachineSet, *clusterv1.MachineSet) {}, false, 1},
		"the spec is not read, and the other one was told to move": {func(_ *world, first, second *clusterv1.MachineSet) {
			first.Generation = 2
			second.Annotations[moveTo] = first.Name
			*second.Spec.Replicas = 0
		}, true, 0},
		"the spec is not read": {func(_ *world, first, _ *clusterv1.MachineSet) { first.Generation = 2 }, true, 0},
		"the spec of the new one is not read": {func(w *world, _, _ *clusterv1.MachineSet) {
			w.setOf("v1.32.0").Generation = 2 // It has no Machines.
		}, false, 1},
		"the move goes on": {func(w *world, first, second *clusterv1.MachineSet) {
			second.Generation = 2
			first.Annotations[moveTo] = w.setOf("v1.32.0").Name
			*first.Spec.Replicas = 1
		}, true, 1},
		"another move": {func(_ *world, first, second *clusterv1.MachineSet) {
			second.Generation = 2
			first.Annotations[moveTo] = second.Name
			*first.Spec.Replicas = 1
		}, true, 0},
		"it has moved": {func(_ *world, first, second *clusterv1.MachineSet) {
			first.Annotations[moveTo] = second.Name
			*first.Spec.Replicas = 2
		}, false, 1},
		"it is parked": {func(_ *world, first, _ *clusterv1.MachineSet) {
			first.Annotations[moveTo] = first.Name
			*first.Spec.Replicas = 1
		}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, first, second := betweenTemplates(t)
			test.earlier(w, first, second)
			w.reconcile(t)
			left := *w.sets[first.Name].Spec.Replicas + *w.sets[second.Name].Spec.Replicas
			if begins := 3 - left; w.plan.Moving != test.moving || begins != test.begins {
				t.Errorf("moving: %t, and %d Machines begin, want %t and %d:\n%s",
					w.plan.Moving, begins, test.moving, test.begins, w)
			}
		})
	}
}

// TestReturnsAreNoMoves: Machines that go back by an earlier plan let no others move while another
// MachineSet may still move some.
func TestReturnsAreNoMoves(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		unread bool
		want   int32
	}{"the other one may move": {true, 1}, "it may not": {false, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, other, half := betweenTemplates(t)
			w.md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(3))
			newest := w.setOf("v1.32.0")
			back := w.machines[w.names()[1]] // The other Machine of half is done.
			w.own(back, half)
			hasMoved(back, newest.Name, half.Name)
			delete(back.Annotations, clusterv1.PendingAcknowledgeMoveAnnotation)
			half.Spec.Replicas, other.Spec.Replicas = new(int32(1)), new(int32(1))
			half.Annotations[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation] = newest.Name
			if test.unread {
				other.Generation = 2
			}
			w.reconcile(t)
			got := w.sets[half.Name]
			if *got.Spec.Replicas != test.want ||
				got.Annotations[v1alpha1.ReturnMachinesAnnotation] != back.Name {
				t.Errorf("%d stay, want %d: %v\n%s", *got.Spec.Replicas, test.want, got.Annotations, w)
			}
		})
	}
}

// TestReturnsAreCanaries: no Machine begins to move beside one that goes back and is a canary.
func TestReturnsAreCanaries(t *testing.T) {
	t.Parallel()
	for canary, begins := range map[int]int32{0: 2, 1: 0} {
		w, other, half := betweenTemplates(t)
		w.limits = &pool.Limits{Canary: intstr.FromInt(canary)}
		w.md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(3))
		back := w.machines[w.names()[1]]
		w.own(back, half)
		hasMoved(back, w.setOf("v1.32.0").Name, half.Name)
		half.Spec.Replicas, other.Spec.Replicas = new(int32(2)), new(int32(1))
		w.reconcile(t)
		other, half = w.sets[other.Name], w.sets[half.Name]
		moved := 2 - *other.Spec.Replicas - *half.Spec.Replicas
		if half.Annotations[v1alpha1.ReturnMachinesAnnotation] != back.Name || moved != begins {
			t.Errorf("canary %d: %d begin, want %d: %v\n%s", canary, moved, begins, half.Annotations, w)
		}
	}
}
