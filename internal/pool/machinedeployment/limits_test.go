package machinedeployment

import (
	"slices"
	"strings"
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

// TestLimits: limits of a policy hold a rollout by replacement, the condition names the reason, and
// the rollout ends when they are lifted.
func TestLimits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limits  pool.Limits
		created int
		blocked string
	}{
		"a partition": {
			limits: pool.Limits{MaxInFlight: 3,
				Partition: intstr.FromInt32(2)}, created: 1, blocked: "Partition",
		},
		"an unknown policy": {limits: pool.Limits{Unknown: "two of them"}, blocked: "PolicyUnknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := func(w *world) { w.policy = limited(tt.limits) }
			w := scenario{begin: limit, change: (*world).upgrade}.run(t)
			w.settle()
			if got, want := [...]int{w.created, w.deleted}, [...]int{tt.created, tt.created}; got != want {
				t.Errorf("created and deleted are %v, want %v:\n%s", got, want, w.picture())
			}
			if got := w.blocked(); got != tt.blocked {
				t.Errorf("the condition has the reason %q, want %q", got, tt.blocked)
			}
			w.policy = policy.Policy{}
			w.settle()
			if got := w.blocked(); got != "" {
				t.Errorf("the condition still has the reason %q", got)
			}
			if n := len(w.sets()); n != 1 {
				t.Errorf("%d MachineSets are left:\n%s", n, w.picture())
			}
		})
	}
}

// TestMaxFailures: the update of a Machine has failed. If the policy's maxFailures is reached, no
// other Machine moves, and the condition names the reason, until the policy changes.
func TestMaxFailures(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		most    int32
		moved   int
		blocked string
	}{
		"reached":     {most: 1, moved: 1, blocked: "MaxFailures"},
		"not reached": {most: 2, moved: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scenario{begin: withBudget(0, 1, kept(func(w *world) {
				w.extension, w.frozen = coverAll, true
				w.limit(pool.Limits{MaxInFlight: 3, MaxFailures: tt.most})
			})), change: (*world).upgrade}.run(t)
			w.settle()
			w.expectMoved(1, "")
			for _, m := range w.machines() {
				if pool.IsUpdating(m) {
					m.Annotations[v1alpha1.UpdateProgressAnnotation] = `{"phase":"Failed"}`
					w.update(m)
				}
			}
			withBudget(0, 3, nothing)(w)
			w.settle()
			w.expectMoved(tt.moved, tt.blocked)
			w.policy.MaxFailures = 3
			w.settle()
			w.expectMoved(3, "")
		})
	}
}

// expectMoved checks how many Machines have moved, that none was created or deleted, and the reason
// of the condition.
func (w *world) expectMoved(moved int, blocked string) {
	w.t.Helper()
	got, want := [...]int{w.created, w.deleted, w.moved}, [...]int{0, 0, moved}
	if got != want || w.blocked() != blocked {
		w.t.Errorf("created, deleted and moved are %v, want %v, and the reason is %q, want %q:\n%s",
			got, want, w.blocked(), blocked, w.picture())
	}
}

// TestOverdueInBatch: a Machine that does not become available keeps the next batch from beginning,
// also if fewer than maxFailures have failed. The condition and an Event name it.
func TestOverdueInBatch(t *testing.T) {
	t.Parallel()
	w := scenario{begin: func(w *world) {
		w.now = time.Now() // Conditions have the time of the machine.
		w.policy = limited(pool.Limits{
			Batches: []intstr.IntOrString{intstr.FromInt32(1)}, MaxFailures: 3,
			MachineDeadline: 10 * time.Minute,
		})
	}, change: (*world).upgrade}.run(t)
	for w.created == 0 {
		w.mustReconcile()
		w.playSets()
	}
	become := func(status metav1.ConditionStatus) {
		for _, m := range w.machines() {
			if m.Spec.Version != "v1.34.0" {
				continue
			}
			conditions.Set(m, metav1.Condition{
				Type: clusterv1.MachineAvailableCondition, Status: status, Reason: "Test",
			})
			if err := w.Inner.Status().Update(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	become(metav1.ConditionFalse)
	w.settle()
	w.expect(1, "")
	w.now = w.now.Add(time.Hour)
	w.settle()
	w.expect(1, "BatchFailed")
	if !slices.ContainsFunc(w.events(), func(e string) bool {
		return strings.HasPrefix(e, "Warning BatchFailed Machine ")
	}) {
		t.Error("no Event says that the batch has failed")
	}
	become(metav1.ConditionTrue)
	w.settle()
	w.expect(3, "")
}
