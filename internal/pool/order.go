package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Order is in which order a rollout takes the Machines of a group.
type Order struct {
	// Labels are keys of labels of Machines, the most important first. Machines are taken in the order
	// of the values; a missing label is the lowest value. A Machine without the label
	// topology.kubernetes.io/zone has spec.failureDomain as its value.
	Labels []string
	// OneAtATime says that a Machine with other values begins only when all that have begun are done.
	OneAtATime bool
	// Last selects Machines that are taken after all others; nil for none.
	Last labels.Selector
}

// IsSet reports whether the order says anything. A nil order says nothing.
func (o *Order) IsSet() bool { return o != nil && (len(o.Labels) > 0 || o.Last != nil) }

// strict reports whether Machines of one place must be done before others begin.
func (o *Order) strict() bool { return o.IsSet() && o.OneAtATime }

// Place is what a Machine's turn depends on. Equal places have the same turn.
type Place struct {
	last   bool
	values string
}

// OrderValue returns the value of a key of [Order] for a Machine with these labels in this failure
// domain; empty if it has none.
func OrderValue(key string, set map[string]string, failureDomain string) string {
	if key == corev1.LabelTopologyZone {
		return cmp.Or(set[key], failureDomain)
	}
	return set[key]
}

// Place returns the place of a Machine with these labels in this failure domain.
func (o *Order) Place(set map[string]string, failureDomain string) Place {
	p := Place{last: o.Last != nil && o.Last.Matches(labels.Set(set))}
	values := make([]string, 0, len(o.Labels))
	for _, key := range o.Labels {
		values = append(values, key+"="+OrderValue(key, set, failureDomain))
	}
	p.values = strings.Join(values, ",")
	return p
}

// Compare returns a negative number if Machines of p are taken before those of q, a positive one if
// after them, and 0 if the places are equal.
func (p Place) Compare(q Place) int {
	if p.last != q.last {
		if q.last {
			return -1
		}
		return 1
	}
	return cmp.Compare(p.values, q.values)
}

func (p Place) String() string {
	switch {
	case p.last && p.values != "":
		return "the last ones with " + p.values
	case p.last:
		return "the last ones"
	case p.values == "":
		return "any labels"
	}
	return p.values
}

// place returns the place of a Machine.
func (o *Order) place(m *clusterv1.Machine) Place { return o.Place(m.Labels, m.Spec.FailureDomain) }

// compare orders two Machines by their places. Without an order they are equal.
func (o *Order) compare(a, b *clusterv1.Machine) int {
	if !o.IsSet() {
		return 0
	}
	return o.place(a).Compare(o.place(b))
}

// queue is what a strict order says about the Machines of old MachineSets.
type queue struct {
	// waiting are those that the rollout is to take. In a kept group those are left out that no update
	// may take back a version.
	waiting []Member
	// next is the lowest place among them; ok is false if nobody waits.
	next Place
	ok   bool
	// machines is how many Machines all MachineSets of the group have.
	machines int32
}

// queue returns what a strict order says about the Machines that wait; nil without one. machines is
// how many the group has.
func (o *Order) queue(waiting []Member, machines int32) *queue {
	if !o.strict() {
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
func (g Group) order() *Order {
	if g.Limits == nil {
		return nil
	}
	return &g.Limits.Order
}

// queue returns what a strict order says; nil without one.
func (d *draft) queue() *queue {
	o := d.group.order()
	if d.queued != nil || !o.strict() {
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
	d.queued = o.queue(waiting, machines)
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
	return q == nil || q.ok && d.group.order().place(m) == q.next
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
