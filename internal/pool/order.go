package pool

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/policy"
)

// placeOf returns the place of a Machine.
func placeOf(o *policy.Order, m *clusterv1.Machine) policy.Place {
	return o.Place(m.Labels, m.Spec.FailureDomain)
}

// comparePlaces orders two Machines by their places. Without an order they are equal.
func comparePlaces(o *policy.Order, a, b *clusterv1.Machine) int {
	if !o.IsSet() {
		return 0
	}
	return placeOf(o, a).Compare(placeOf(o, b))
}

// queue is what a strict order says about the Machines of old MachineSets.
type queue struct {
	// waiting are those that the rollout is to take. In a kept group those are left out that no update
	// may take back a version.
	waiting []Member
	// next is the lowest place among them; ok is false if nobody waits.
	next policy.Place
	ok   bool
	// machines is how many Machines all MachineSets of the group have.
	machines int32
}

// newQueue returns what a strict order says about the Machines that wait; nil without one. machines is
// how many the group has.
func newQueue(o *policy.Order, waiting []Member, machines int32) *queue {
	if !o.Strict() {
		return nil
	}
	q := &queue{waiting: waiting, machines: machines}
	for _, m := range waiting {
		if !m.Deleting && (!q.ok || m.Place.Compare(q.next) < 0) {
			q.next, q.ok = m.Place, true
		}
	}
	return q
}

// here returns how many Machines have the next place and are not being deleted: of a MachineSet, or
// of all if set is empty.
func (q *queue) here(set string) (n int32) {
	for _, m := range q.waiting {
		if !m.Deleting && m.Place == q.next && (set == "" || m.Set == set) {
			n++
		}
	}
	return n
}

// order is that of the UpdatePolicy; nil for none.
func (g Group) order() *policy.Order {
	if g.Limits == nil {
		return nil
	}
	return &g.Limits.Order
}

// queue returns what a strict order says; nil without one.
func (d *draft) queue() *queue {
	o := d.group.order()
	if d.queued != nil || !o.Strict() {
		return d.queued
	}
	var waiting []Member
	var machines int32
	equals := d.equals()
	for _, m := range d.group.Machines {
		isNew := d.newest != nil && Owns(d.newest.Desired, m)
		set := d.owner(m)
		if isNew || set != "" {
			machines++
		}
		if !isNew && set != "" && !equals.Has(set) && !d.staysAhead(m) {
			v := memberOf(m, nil, metav1.Time{}, o, d.group.past)
			v.Set = set
			waiting = append(waiting, v)
		}
	}
	d.queued = newQueue(o, waiting, machines)
	return d.queued
}

// staysAhead reports whether no update may take a Machine of a kept group back a version.
func (d *draft) staysAhead(m *clusterv1.Machine) bool {
	r, why := d.rankOf(m)
	return d.group.Keep && r == rankNever && why == ReasonKubeletAhead
}

// isNext reports whether the order of the UpdatePolicy lets a Machine of an old MachineSet begin.
func (d *draft) isNext(m *clusterv1.Machine) bool {
	q := d.queue()
	return q == nil || q.ok && placeOf(d.group.order(), m) == q.next
}

// turn returns what a strict order lets begin; nil without one, and if nothing is left. p has
// Replicas and Touched.
func (o Observation) turn(p Progress, r Rollout, keep bool) *Turn {
	q := o.queue
	if q == nil || !q.ok {
		return nil
	}
	var old int32
	busy := slices.Clone(o.undone)
	for _, m := range q.waiting {
		if !m.Deleting {
			old++
		}
		if m.isBusy() {
			busy = append(busy, m)
		}
	}
	going := r.going(old+p.Touched-p.Replicas, keep)
	t := &Turn{
		Place: q.next.String(), Machines: max(q.here("")-going, 0),
		Missing: max(p.Replicas-q.machines, 0),
	}
	for _, m := range busy {
		if m.Place != q.next {
			t.Before = append(t.Before, m.Name)
			t.updating = t.updating || m.Updating
		}
	}
	slices.Sort(t.Before)
	return t
}

// going is how many Machines leave old MachineSets by earlier plans: those that are beyond the
// replicas of their MachineSet, and without moves also surplus, those in whose place new ones
// exist. With moves, a spare Machine takes the place of one that nobody has chosen so far.
func (r Rollout) going(surplus int32, keep bool) int32 {
	n := r.sum(Sizes.leaving)
	switch {
	case keep:
		return 0 // The plan chooses anew, and counts all that have not left.
	case slices.ContainsFunc(r.Old, Sizes.moves):
		return n
	}
	return max(n, surplus, 0)
}

// Turn is what a strict order lets begin.
type Turn struct {
	// Place describes the Machines that are next.
	Place string
	// Machines is how many of them have not begun.
	Machines int32
	// Before are Machines of other places that are not done, sorted. Missing is how many Machines do
	// not exist yet.
	Before  []string
	Missing int32
	// updating says that one of Before is being updated in place, or could not be.
	updating bool
}

// inOrder bounds an allowance by a strict order.
func (a Allowance) inOrder(p Progress) Allowance {
	if p.Turn == nil {
		return a
	}
	switch {
	case len(p.Turn.Before) > 0:
	case p.Turn.Missing > 0:
		// An old Machine is gone, and the one in its place has no place in the order yet.
		return a.bound(0, ReasonOrder, fmt.Sprintf("%d Machines are to be created before Machines with "+
			"%s begin (order)", p.Turn.Missing, p.Turn.Place))
	default:
		return a.bound(p.Turn.Machines, ReasonOrder,
			fmt.Sprintf("Machines with %s go first (order)", p.Turn.Place))
	}
	bad := p.bad()
	if i := slices.IndexFunc(bad, func(name string) bool {
		return slices.Contains(p.Turn.Before, name)
	}); i >= 0 {
		return a.bound(0, ReasonOrderFailed, fmt.Sprintf("Machine %s failed, and is to be done before "+
			"Machines with %s begin (order). Fix: repair it, or %s", bad[i], p.Turn.Place, replaceByHand))
	}
	return a.bound(0, ReasonOrder, fmt.Sprintf("Machine %s is to be done before Machines with %s "+
		"begin (order)", p.Turn.Before[0], p.Turn.Place))
}
