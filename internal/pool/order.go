package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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

// place is what a Machine's turn depends on. Equal places have the same turn.
type place struct {
	last   bool
	values string
}

// place returns the place of a Machine.
func (o *Order) place(m *clusterv1.Machine) place {
	p := place{last: o.Last != nil && o.Last.Matches(labels.Set(m.Labels))}
	values := make([]string, 0, len(o.Labels))
	for _, key := range o.Labels {
		value := m.Labels[key]
		if value == "" && key == corev1.LabelTopologyZone {
			value = m.Spec.FailureDomain
		}
		values = append(values, key+"="+value)
	}
	p.values = strings.Join(values, ",")
	return p
}

func (p place) compare(q place) int {
	if p.last != q.last {
		if q.last {
			return -1
		}
		return 1
	}
	return cmp.Compare(p.values, q.values)
}

func (p place) String() string {
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

// compare orders two Machines by their places. Without an order they are equal.
func (o *Order) compare(a, b *clusterv1.Machine) int {
	if !o.IsSet() {
		return 0
	}
	return o.place(a).compare(o.place(b))
}

// first returns the lowest place of Machines that a rollout may take. ok is false if there are none.
func (o *Order) first(machines []*clusterv1.Machine) (lowest place, ok bool) {
	for _, m := range machines {
		if p := o.place(m); !isDeleting(m) && (!ok || p.compare(lowest) < 0) {
			lowest, ok = p, true
		}
	}
	return lowest, ok
}

// count returns how many Machines have a place and are not being deleted.
func (o *Order) count(at place, machines []*clusterv1.Machine) (n int32) {
	for _, m := range machines {
		if !isDeleting(m) && o.place(m) == at {
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

// queue is what a strict order says about the Machines of old MachineSets.
type queue struct {
	// waiting are those that the rollout is to take. In a kept group those are left out that no update
	// may take back a version.
	waiting []*clusterv1.Machine
	// next is the lowest place among them; ok is false if nobody waits.
	next place
	ok   bool
}

// queue returns what a strict order says; nil without one.
func (d *draft) queue() *queue {
	o := d.group.order()
	if d.queued != nil || !o.strict() {
		return d.queued
	}
	d.queued = &queue{}
	for _, m := range d.group.Machines {
		turn, why := d.turnOf(m)
		isNew := d.newest != nil && Owns(d.newest.Desired, m)
		ahead := d.group.Keep && turn == turnNever && why == ReasonKubeletAhead
		if !isNew && !ahead && d.group.controls(m) {
			d.queued.waiting = append(d.queued.waiting, m)
		}
	}
	d.queued.next, d.queued.ok = o.first(d.queued.waiting)
	return d.queued
}

// isNext reports whether the order of the UpdatePolicy lets a Machine of an old MachineSet begin.
func (d *draft) isNext(m *clusterv1.Machine) bool {
	q := d.queue()
	return q == nil || q.ok && d.group.order().place(m) == q.next
}

// inOrder adds to the progress what a strict order depends on. undone are the Machines of the new
// MachineSet that are neither done nor being deleted.
func (d *draft) inOrder(p Progress, undone []*clusterv1.Machine) Progress {
	q := d.queue()
	if q == nil || !q.ok {
		return p
	}
	var old int32
	busy := slices.Clone(undone)
	for _, m := range q.waiting {
		if !isDeleting(m) {
			old++
		}
		if isDeleting(m) || IsUpdating(m) && !hasFailedUpdate(m) {
			busy = append(busy, m)
		}
	}
	going := d.going(old + p.Touched - p.Replicas)
	o := d.group.order()
	p.Turn = &Turn{Place: q.next.String(), Machines: max(o.count(q.next, q.waiting)-going, 0)}
	for _, m := range busy {
		if o.place(m) != q.next {
			p.Turn.Before = append(p.Turn.Before, m.Name)
		}
	}
	slices.Sort(p.Turn.Before)
	return p
}

// going is how many Machines leave old MachineSets by earlier plans: those that are beyond the replicas
// of their MachineSet, and without moves also surplus, those in whose place new ones exist. With
// moves, a spare Machine takes the place of one that nobody has chosen so far.
func (d *draft) going(surplus int32) int32 {
	n := d.rollout.sum(Sizes.leaving)
	switch {
	case d.group.Keep:
		return 0 // The plan chooses anew, and counts all that have not left.
	case slices.ContainsFunc(d.rollout.Old, Sizes.moves):
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
	// Before are Machines of other places that are not done, sorted.
	Before []string
}

// inOrder bounds an allowance by a strict order.
func (a Allowance) inOrder(p Progress) Allowance {
	if p.Turn == nil {
		return a
	}
	if len(p.Turn.Before) == 0 {
		return a.bound(p.Turn.Machines, ReasonOrder,
			fmt.Sprintf("Machines with %s go first (order)", p.Turn.Place))
	}
	if i := slices.IndexFunc(p.Failed, func(name string) bool {
		return slices.Contains(p.Turn.Before, name)
	}); i >= 0 {
		return a.bound(0, ReasonOrderFailed, fmt.Sprintf("Machine %s failed, and is to be done before "+
			"Machines with %s begin (order). Fix: repair or delete it", p.Failed[i], p.Turn.Place))
	}
	return a.bound(0, ReasonOrder, fmt.Sprintf("Machine %s is to be done before Machines with %s "+
		"begin (order)", p.Turn.Before[0], p.Turn.Place))
}
