package machinedeployment

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/pool"
)

// faults are what goes wrong in MachineSets.
type faults struct {
	// fails says that each reconcile of a MachineSet with Machines ends with an error.
	fails bool
	// most is how many Machines a quota lets exist; 0 means no quota.
	most int
}

func (f faults) refuses(w *world) bool { return f.most > 0 && len(w.machines()) >= f.most }

// playStatus writes the status of a MachineSet.
func (w *world) playStatus(set *clusterv1.MachineSet) {
	w.t.Helper()
	if !set.DeletionTimestamp.IsZero() && len(w.owned(set)) == 0 {
		set.Finalizers = nil
		if err := w.Inner.Update(w.t.Context(), set); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	before := set.DeepCopy()
	counts := pool.MachineCounts(set, w.machines())
	set.Status.Replicas, set.Status.AvailableReplicas = &counts.Machines, &counts.Available
	set.Status.ReadyReplicas, set.Status.UpToDateReplicas = &counts.Available, &counts.UpToDate
	w.observe(set)
	if equality.Semantic.DeepEqual(before.Status, set.Status) {
		return
	}
	if err := w.Inner.Status().Patch(w.t.Context(), set, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// observe notes in a MachineSet that its spec was read, and that all went well.
func (w *world) observe(set *clusterv1.MachineSet) {
	conditions.Set(set, metav1.Condition{
		Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason,
	})
	owned := len(w.owned(set))
	if w.refuses(w) && owned < int(*set.Spec.Replicas) || w.fails && owned > 0 {
		return
	}
	set.Status.ObservedGeneration = set.Generation
}

// TestMachineSetsFail: a MachineSet that reads its spec and then fails, again and again, keeps
// neither scaling nor a rollout from their end.
func TestMachineSetsFail(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scenario
		// scales are values of spec.replicas, one after another.
		scales []int32
		faults
		machines int
	}{
		"replace": {
			scenario: scenario{begin: nothing, change: (*world).upgrade, created: 3, deleted: 3},
			faults:   faults{fails: true}, machines: 3,
		},
		"in place": {
			scenario: scenario{begin: withBudget(0, 1, inPlace), change: (*world).upgrade, moved: 3},
			faults:   faults{fails: true}, machines: 3,
		},
		"kept": {
			scenario: scenario{begin: kept(inPlace), change: (*world).upgrade, moved: 3},
			faults:   faults{fails: true}, machines: 3,
		},
		"kept, blocked, scaled down and up": {
			scenario: scenario{begin: kept(nothing), change: (*world).upgrade, created: 3, deleted: 1},
			faults:   faults{fails: true}, scales: []int32{2, 5}, machines: 5,
		},
		"quota, scaled down": {
			scenario: scenario{begin: withBudget(2, 0, nothing), change: (*world).upgrade, created: 3, deleted: 4},
			faults:   faults{most: 4}, scales: []int32{2}, machines: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tt.scenario
			s.change = func(*world) {}
			w := s.run(t)
			w.faults = tt.faults
			tt.change(w)
			w.settle()
			for _, replicas := range tt.scales {
				scale(replicas)(w)
				w.settle()
			}
			got, want := [...]int{w.created, w.deleted, w.moved}, [...]int{tt.created, tt.deleted, tt.moved}
			if got != want || len(w.machines()) != tt.machines {
				t.Errorf("created, deleted and moved are %v, want %v:\n%s", got, want, w.picture())
			}
		})
	}
}
