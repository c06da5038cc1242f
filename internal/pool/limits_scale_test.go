package pool_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/internal/pool"
)

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
