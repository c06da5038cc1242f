package pools_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

const (
	kindDeployment = "MachineDeployment"
	kindSet        = "MachineSet"
)

// limits are what must hold of a pool at each revision of its objects, from the time at which all
// its machines are available.
type limits struct {
	replicas int
	// most is how many Machines are not being deleted, and how many MachineSets ask for. The
	// status of a MachineDeployment may count a Machine twice for a moment, as stock's: it adds
	// those of its MachineSets.
	most int
	// least is how many Machines are available.
	least int
	// updating is how many Machines have an update in progress, and marked how many Cluster API has
	// marked as updating.
	updating, marked int
	// after is the revision until which nothing is checked.
	after int64
}

// limitsOf are those that follow from a pool's own fields.
func limitsOf(pool rig.Pool) limits {
	replicas := int(pool.Replicas)
	l := limits{
		replicas: replicas, most: replicas + int(pool.MaxSurge),
		least:    replicas - int(pool.MaxUnavailable),
		updating: int(pool.MaxUnavailable), marked: int(pool.MaxUnavailable),
	}
	if pool.NoPolicy {
		l.updating, l.marked = 0, 0
	}
	return l
}

// checkLimits replays everything that happened to a pool, and fails the test where a limit did
// not hold.
func (p *plane) checkLimits(t *testing.T, pool string, l limits) {
	t.Helper()
	r := replay{machines: map[types.UID]history.Fact{}, sets: map[types.UID]*clusterv1.MachineSet{}}
	broken := map[string]bool{}
	for _, f := range p.facts(pool) {
		r.see(f)
		r.begun = r.begun || r.available() == l.replicas
		if !r.begun || f.Revision <= l.after {
			continue
		}
		for rule, message := range r.check(l) {
			if !broken[rule] {
				t.Errorf("pool %s at revision %d (%s %s): %s: %s", pool, f.Revision, f.Kind, f.Name, rule,
					message)
			}
			broken[rule] = true
		}
	}
	if !r.begun {
		t.Errorf("the %d machines of pool %s were never available at the same time", l.replicas, pool)
	}
}

// facts returns everything that happened to a pool.
func (p *plane) facts(pool string) []history.Fact {
	return p.History.Facts(func(f history.Fact) bool {
		return f.Group == pool && f.Cluster.Namespace == rig.PoolsCluster
	})
}

// replay is a pool at one revision.
type replay struct {
	machines map[types.UID]history.Fact
	sets     map[types.UID]*clusterv1.MachineSet
	begun    bool
}

func (r *replay) see(f history.Fact) {
	switch o := f.Object.(type) {
	case *clusterv1.Machine:
		r.machines[f.UID] = f
		if f.Gone {
			delete(r.machines, f.UID)
		}
	case *clusterv1.MachineSet:
		r.sets[f.UID] = o
		if f.Gone {
			delete(r.sets, f.UID)
		}
	}
}

// live returns the Machines that are not being deleted.
func (r *replay) live() []history.Fact {
	return slices.DeleteFunc(slices.Collect(maps.Values(r.machines)),
		func(f history.Fact) bool { return f.Deleting })
}

func (r *replay) available() int {
	n := 0
	for _, f := range r.live() {
		if c := f.Condition(clusterv1.MachineAvailableCondition); c != nil &&
			c.Status == metav1.ConditionTrue {
			n++
		}
	}
	return n
}

// String lists the MachineSets with what they ask for, and their Machines.
func (r *replay) String() string {
	var lines []string
	for uid, set := range r.sets {
		line := set.Name + " asks for"
		if set.Spec.Replicas != nil {
			line += fmt.Sprintf(" %d:", *set.Spec.Replicas)
		}
		for _, f := range r.machines {
			if owner := metav1.GetControllerOf(f.Object); owner == nil || owner.UID != uid {
				continue
			}
			line += " " + f.Name
			if f.Deleting {
				line += " (deleting)"
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// owned counts the Machines of a MachineSet.
func (r *replay) owned(set types.UID) int {
	n := 0
	for _, f := range r.machines {
		if owner := metav1.GetControllerOf(f.Object); owner != nil && owner.UID == set {
			n++
		}
	}
	return n
}

// check returns what does not hold, by rule.
func (r *replay) check(l limits) map[string]string {
	broken := map[string]string{}
	live, available, updating, marked := r.live(), r.available(), 0, 0
	for _, f := range live {
		if m, ok := f.Object.(*clusterv1.Machine); ok && rig.Marked(m) {
			marked++
		}
		if rig.ProgressOf(f.Object) != nil {
			updating++
		}
		if owner := metav1.GetControllerOf(f.Object); owner == nil || owner.Kind != kindSet {
			broken["each Machine has one MachineSet"] = fmt.Sprintf("%s is owned by %v", f.Name,
				f.Object.GetOwnerReferences())
		}
	}
	asked := 0
	for uid, set := range r.sets {
		if set.Spec.Replicas == nil {
			continue
		}
		wants := int(*set.Spec.Replicas)
		if set.Annotations[clusterv1.DisableMachineCreateAnnotation] == "true" {
			wants = min(wants, r.owned(uid))
		}
		asked += wants
	}
	for _, c := range []struct {
		rule string
		is   int
		ok   bool
	}{
		{fmt.Sprintf("at most %d Machines", l.most), len(live), len(live) <= l.most},
		{fmt.Sprintf("MachineSets ask for at most %d", l.most), asked, asked <= l.most},
		{fmt.Sprintf("at least %d available", l.least), available, available >= l.least},
		{fmt.Sprintf("at most %d updates in progress", l.updating), updating, updating <= l.updating},
		{fmt.Sprintf("at most %d marked Machines", l.marked), marked, marked <= l.marked},
	} {
		if !c.ok {
			broken[c.rule] = fmt.Sprintf("there are %d; %s", c.is, r)
		}
	}
	return broken
}
