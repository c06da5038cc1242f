package machinedeployment

import (
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

// roll settles like the Machine controller does: Machines report whether they are up to date.
func (w *world) roll() {
	w.t.Helper()
	for range 3 {
		for _, m := range w.machines() {
			status := metav1.ConditionFalse
			if m.Spec.Version == w.md().Spec.Template.Spec.Version {
				status = metav1.ConditionTrue
			}
			conditions.Set(m, metav1.Condition{
				Type: clusterv1.MachineUpToDateCondition, Status: status, Reason: "Test",
			})
			if err := w.Inner.Status().Update(w.t.Context(), m); err != nil {
				w.t.Fatal(err)
			}
		}
		w.settle()
	}
}

// expect fails if another number of Machines was created, or if something else blocks the group.
func (w *world) expect(created int, blocked string) {
	w.t.Helper()
	if got := w.blocked(); got != blocked || w.created != created {
		w.t.Fatalf("%d Machines were created, want %d, and the condition has the reason %q, want %q:\n%s",
			w.created, created, got, blocked, w.picture())
	}
}

// leaves fails if the MachineDeployment has an annotation of a rollout that has ended.
func (w *world) leaves() {
	w.t.Helper()
	for _, key := range []string{v1alpha1.RolloutResumedAnnotation, v1alpha1.UpdateRetryAnnotation} {
		if text, left := w.md().Annotations[key]; left {
			w.t.Errorf("the annotation %s is left: %s", key, text)
		}
	}
}

// TestDeadlineOfPartition: the deadline of a group does not count while a partition holds the
// rollout. It counts from zero after each step, also in another process.
func TestDeadlineOfPartition(t *testing.T) {
	t.Parallel()
	limits := func(partition int32) policy.Policy {
		return limited(pool.Limits{
			Partition: intstr.FromInt32(partition), GroupDeadline: time.Hour,
		})
	}
	w := scenario{begin: func(w *world) {
		w.now = time.Now() // Conditions have the time of the machine.
		w.policy = limits(2)
	}, change: (*world).upgrade}.run(t)
	w.roll()
	w.expect(1, "Partition")
	for partition := int32(1); partition >= 0; partition-- {
		w.now = w.now.Add(2 * time.Hour)
		w.roll()
		w.expect(w.created, "Partition")
		w.policy = limits(partition)
		w.mustReconcile()
		w.expect(w.created, "")
		w.restart()
		if partition > 0 {
			w.roll()
			w.expect(2, "Partition")
		}
	}
	if w.md().Annotations[v1alpha1.RolloutResumedAnnotation] == "" {
		t.Error("nothing records that the rollout continues")
	}
	for _, set := range w.sets() {
		if _, copied := set.Annotations[v1alpha1.RolloutResumedAnnotation]; copied {
			t.Errorf("MachineSet %s has a copy of the annotation", set.Name)
		}
	}
	w.mustReconcile()
	w.expect(2, "")
	w.roll()
	w.expect(3, "")
	w.leaves()
}

// TestRetryOfDeadline: a rollout that is beyond its deadline continues when a person asks for it,
// and the deadline counts from zero.
func TestRetryOfDeadline(t *testing.T) {
	t.Parallel()
	w := late(t, limited(pool.Limits{MaxInFlight: 1, GroupDeadline: time.Hour}))
	for range 2 {
		w.now = w.now.Add(2 * time.Hour)
		w.mustReconcile()
		w.expect(0, "GroupDeadline")
		w.askRetry()
		w.mustReconcile()
		w.mustReconcile()
		w.expect(0, "")
	}
	w.mustEnd()
}

// late begins a rollout with a deadline of an hour, in which no spare Machine can be created, and
// lets the deadline pass.
func late(t *testing.T, p policy.Policy) *world {
	t.Helper()
	w := scenario{begin: func(w *world) {
		w.now, w.most, w.policy = time.Now(), 3, p // Conditions have the time of the machine.
	}, change: (*world).upgrade}.run(t)
	w.roll()
	w.expect(0, "")
	w.now = w.now.Add(2 * time.Hour)
	w.mustReconcile()
	w.expect(0, "GroupDeadline")
	return w
}

func (w *world) askRetry() {
	w.t.Helper()
	w.edit(func(md *clusterv1.MachineDeployment) {
		md.Annotations[v1alpha1.UpdateRetryAnnotation] = ""
	})
}

// mustEnd lets spare Machines be created, and expects that the rollout ends and leaves no record.
func (w *world) mustEnd() {
	w.t.Helper()
	w.most = 0
	w.roll()
	w.expect(3, "")
	w.leaves()
}

// TestHoldAfterDeadline: a hold that follows the deadline at once is another one. The deadline
// counts from zero when it ends.
func TestHoldAfterDeadline(t *testing.T) {
	t.Parallel()
	limits := pool.Limits{GroupDeadline: time.Hour}
	held := limits
	held.Partition = intstr.FromInt32(3)
	w := late(t, limited(limits))
	w.askRetry()
	w.limit(held)
	w.mustReconcile()
	w.expect(0, "Partition")
	w.now = w.now.Add(2 * time.Hour)
	w.mustReconcile()
	w.limit(limits)
	for range 3 {
		w.mustReconcile()
		w.expect(0, "")
	}
	w.mustEnd()
}

// TestRetryTooEarly: a retry that answers nothing does not lift the deadline of a later rollout.
func TestRetryTooEarly(t *testing.T) {
	t.Parallel()
	const upgrade, failed = v1alpha1.InPlaceUpgradeAnnotation, v1alpha1.FailedCanariesAnnotation
	for name, tt := range map[string]struct {
		other string
		limit time.Duration
		stays bool
	}{
		"no other annotation":      {limit: time.Hour},
		"an upgrade by annotation": {other: upgrade, limit: time.Hour, stays: true},
		"failed canaries":          {other: failed, limit: time.Hour, stays: true},
		"no deadline":              {stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.policy = limited(pool.Limits{GroupDeadline: tt.limit})
			w.settle()
			w.upgrade()
			w.edit(func(md *clusterv1.MachineDeployment) {
				md.Annotations[v1alpha1.UpdateRetryAnnotation] = ""
				if tt.other != "" {
					md.Annotations[tt.other] = "?"
				}
			})
			w.roll()
			if _, stays := w.md().Annotations[v1alpha1.UpdateRetryAnnotation]; stays != tt.stays {
				t.Errorf("the annotation is there: %v, want %v", stays, tt.stays)
			}
		})
	}
}

// TestRevertInHold: a template that is set back before a Machine began needs no record.
func TestRevertInHold(t *testing.T) {
	t.Parallel()
	w := scenario{begin: func(w *world) {
		w.now = time.Now() // Conditions have the time of the machine.
		w.policy = limited(pool.Limits{
			Partition: intstr.FromInt32(3), GroupDeadline: time.Hour,
		})
	}, change: (*world).upgrade}.run(t)
	w.roll()
	w.expect(0, "Partition")
	w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "v1.33.0" })
	var writes []string
	for range 3 {
		writes = append(writes, w.mustReconcile()...)
	}
	w.expect(0, "")
	// One patch is for the revision.
	others := func(write string) bool { return write != "patch MachineDeployment" }
	if patches := slices.DeleteFunc(slices.Clone(writes), others); len(patches) != 1 {
		t.Errorf("writes: %q", writes)
	}
}
