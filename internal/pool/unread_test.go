package pool_test

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool"
)

// TestUnread: a MachineSet that asks for all its Machines may still give some up, as long as its
// controller has not read that.
func TestUnread(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		replicas, machines int32
		// observed is the generation in the status, read that in the condition Paused; 0 for none.
		observed, read int64
		want           bool
	}{
		"raised":                {2, 1, 1, 0, true},
		"raised to what exists": {1, 1, 1, 0, true},
		"raised, older pause":   {2, 1, 1, 1, true},
		"lowered":               {1, 2, 1, 0, false},
		"without Machines":      {1, 0, 1, 0, false},
		"observed":              {2, 1, 2, 0, false},
		"observed, older pause": {2, 1, 2, 1, false},
		"read, and failed":      {2, 1, 1, 2, false},
		"never observed":        {2, 1, 0, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := msSet(test.replicas)
			set.Generation, set.Status.ObservedGeneration = 2, test.observed
			if test.read > 0 {
				set.Status.Conditions = []metav1.Condition{{
					Type: clusterv1.PausedCondition, ObservedGeneration: test.read,
				}}
			}
			set.Status.Replicas = &test.machines
			want := pool.Counts{Machines: test.machines, Unread: test.want}
			if diff := gocmp.Diff(want, pool.SafeCounts(set, nil)); diff != "" {
				t.Errorf("the counters differ (-want +got):\n%s", diff)
			}
			if pool.StatusCounts(set).Unread {
				t.Error("a MachineSet is unread by the counters that Cluster API uses")
			}
		})
	}
}

// TestDeletingIsUnavailable: the condition of a Machine shows its deletion late.
func TestDeletingIsUnavailable(t *testing.T) {
	t.Parallel()
	set := msSet(2)
	available := func(m *clusterv1.Machine) {
		m.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: set.Name, Controller: new(true),
		}}
		m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineAvailableCondition, Status: metav1.ConditionTrue}}
	}
	machines := []*clusterv1.Machine{msMachine("a", available), msMachine("b", available, inDeletion(time.Hour))}
	want := pool.Counts{Machines: 2, Available: 1}
	if diff := gocmp.Diff(want, pool.MachineCounts(set, machines)); diff != "" {
		t.Errorf("the counters differ (-want +got):\n%s", diff)
	}
}

// TestRevertMeetsDeletion: no MachineSet gives up Machines while another one may still give up some that
// a revert has just asked it to keep.
func TestRevertMeetsDeletion(t *testing.T) {
	t.Parallel()
	all := func(n int32, unread bool) pool.Counts {
		return pool.Counts{Machines: n, Available: n, UpToDate: n, Unread: unread}
	}
	sized := func(name string, c pool.Counts) pool.Sizes {
		return pool.Sizes{Name: name, Replicas: c.Machines, Target: c.Machines, Counts: c, Eligible: true}
	}
	for name, test := range map[string]struct {
		newest, old bool
		want        int32
	}{
		"all are read":                   {false, false, 0},
		"the new one is not read":        {true, false, 1},
		"another old one is not read":    {false, true, 1},
		"neither of them has read it so": {true, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := pool.Rollout{
				Budget: pool.NewBudget(3, 0, 1), New: sized("new", all(1, test.newest)),
				Old: []pool.Sizes{sized("first", all(1, false)), sized("second", all(1, test.old))},
			}
			if got := r.RollingUpdate(nil).Old[0].Target; got != test.want {
				t.Errorf("%d Machines stay, want %d", got, test.want)
			}
			// An unavailable Machine of an old MachineSet blocks the rollout, and nothing else goes on.
			r.Old[0].Counts.Available, r.Budget = 0, pool.NewBudget(3, 1, 0)
			r.New.Target, r.New.Replicas = 1, 1
			if got := r.BreakDeadlock().Old[0].Target; got != test.want {
				t.Errorf("%d Machines stay in a deadlock, want %d", got, test.want)
			}
			// A spare Machine for updates in place is created only if nothing goes on.
			spare := pool.Rollout{
				Budget: pool.NewBudget(2, 1, 0), InPlaceUpdates: true, New: sized("new", all(1, test.newest)),
				Old: []pool.Sizes{sized("first", all(1, test.old))},
			}
			covered := map[string]bool{"first": true}
			created := spare.RollingUpdate(covered).New.Target - 1
			if want := 1 - test.want; created != want {
				t.Errorf("%d spare Machines, want %d", created, want)
			}
		})
	}
}
