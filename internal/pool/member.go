package pool

import (
	"iter"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
)

// Member is what the limits of an UpdatePolicy read of a Machine.
type Member struct {
	Name string
	// Set is the MachineSet that owns it, and New says that this is the one of the present template.
	Set string
	New bool
	// Moved says that it was moved to the new MachineSet, and not created there: it is older than the
	// rollout, or it is being updated in place, or was.
	Moved bool
	// Deleting says that it is being deleted, Updating that it is being updated in place, and Failed
	// that this update failed finally. Refused says that the update has not begun, and does not before
	// a person acts.
	Deleting, Updating, Failed, Refused bool
	// Available says that it is available and not being updated. Soaks is since when; zero if it has
	// not to soak: an update in place has soaked when it ends.
	Available bool
	Soaks     time.Time
	// Began is since when it is being created or updated, or is unavailable after that; zero if its
	// update has not begun, and while it soaks in its update.
	Began time.Time
	// Place is its place in the order of the UpdatePolicy.
	Place policy.Place
}

// memberOf describes a Machine. newest is the MachineSet of the present template; nil for none.
// began is the beginning of the rollout to it, and past reads what others have recorded.
func memberOf(
	m *clusterv1.Machine, newest *clusterv1.MachineSet, began metav1.Time, order *policy.Order,
	past func(time.Time) time.Time,
) Member {
	v := Member{
		Name: m.Name, New: newest != nil && Owns(newest, m), Deleting: isDeleting(m),
		Updating: IsUpdating(m), Failed: HasFailedUpdate(m), Began: past(changingSince(m)),
	}
	v.Refused = v.Updating && isRefused(m)
	v.Available = !v.Updating && conditions.IsTrue(m, clusterv1.MachineAvailableCondition)
	if order.IsSet() {
		v.Place = order.Place(m.Labels, m.Spec.FailureDomain)
	}
	since := conditions.GetLastTransitionTime(m, clusterv1.MachineAvailableCondition)
	v.Moved = v.New && (m.CreationTimestamp.IsZero() || m.CreationTimestamp.Before(&began) ||
		v.Updating || m.Annotations[v1alpha1.LastUpdateAnnotation] != "")
	if v.Available && !v.Moved && since != nil {
		v.Soaks = past(since.Time)
	}
	return v
}

// rolloutBegan is when the present rollout of a group began: its MachineSet was created. That tells
// nothing if the template was reverted, so that the MachineSet is older, and after a move to
// another management cluster, where all objects are created anew. Then the MachineDeployment tells.
func rolloutBegan(
	md *clusterv1.MachineDeployment, newest *clusterv1.MachineSet, machines []*clusterv1.Machine,
) metav1.Time {
	if newest == nil {
		return metav1.Time{}
	}
	began := newest.CreationTimestamp
	isOlder := func(m *clusterv1.Machine) bool { return m.CreationTimestamp.Before(&began) }
	if newest.Annotations[revisionHistoryAnnotation] == "" && slices.ContainsFunc(machines, isOlder) {
		return began
	}
	since := conditions.Get(md, clusterv1.MachineDeploymentRollingOutCondition)
	if since != nil && since.Status == metav1.ConditionTrue &&
		began.Before(&since.LastTransitionTime) {
		began = since.LastTransitionTime
	}
	return began
}

// isBusy reports whether a Member of an old MachineSet is being changed.
func (m Member) isBusy() bool { return m.Deleting || m.Updating && !m.Failed }

// Observation is what the Members of a group tell the limits.
type Observation struct {
	// Progress has no Replicas, Touched, InFlight, Alone, Kept and Turn: these depend on the plan.
	Progress Progress
	// UpdatingOld is how many Members of old MachineSets are being updated, and have not failed.
	UpdatingOld int32
	// moved is how many Members of the new MachineSet were moved there.
	moved int32
	// undone are the Members of the new MachineSet that are neither done nor being deleted.
	undone []Member
	// queue is nil without a strict order.
	queue *queue
}

// Observe measures what Members tell. Those of MachineSets that the group does not control are left
// out. began is since when the deadline of the group counts; zero while it does not.
func (l Limits) Observe(members iter.Seq[Member], began, now time.Time) Observation {
	o := observer{limits: &l, now: now}
	var waiting []Member
	var machines int32
	for m := range members {
		machines++
		if m.Updating && !m.Deleting && !m.Refused {
			o.Progress.Updating++
		}
		switch {
		case m.New:
			o.fresh(m)
			continue
		case m.Updating && !m.Failed:
			o.UpdatingOld++
		}
		if l.Order.Strict() {
			waiting = append(waiting, m)
		}
	}
	o.queue = newQueue(&l.Order, waiting, machines)
	slices.Sort(o.Progress.Failed)
	slices.Sort(o.Progress.Overdue)
	if l.GroupDeadline > 0 && !began.IsZero() {
		o.Progress.Late = !o.before(began.Add(l.GroupDeadline))
	}
	return o.Observation
}

// observer gathers an Observation.
type observer struct {
	limits *Limits
	now    time.Time
	Observation
}

// fresh looks at a Member of the new MachineSet.
func (o *observer) fresh(m Member) {
	if m.Deleting {
		return
	}
	if m.Moved {
		o.moved++
	}
	switch {
	case m.Failed:
		o.undone = append(o.undone, m)
		o.Progress.Failed = append(o.Progress.Failed, m.Name)
		return
	case m.Available:
		if o.limits.Soak == 0 || m.Soaks.IsZero() || !o.before(m.Soaks.Add(o.limits.Soak)) {
			o.Progress.Done++
			if m.Moved {
				o.Progress.Updated++
			}
		} else {
			o.undone = append(o.undone, m)
		}
		return
	}
	o.undone = append(o.undone, m)
	began := m.Began
	if began.IsZero() {
		began = o.now // No event tells that it begins: it may do so at once.
	}
	if o.limits.MachineDeadline > 0 && !o.before(began.Add(o.limits.MachineDeadline)) {
		o.Progress.Overdue = append(o.Progress.Overdue, m.Name)
	}
}

// before reports whether a time is still to come, and notes to look again then.
func (o *observer) before(t time.Time) bool {
	if !o.now.Before(t) {
		return false
	}
	if o.Progress.Wake.IsZero() || t.Before(o.Progress.Wake) {
		o.Progress.Wake = t
	}
	return true
}

// observe measures what the Machines of the group tell.
func (d *draft) observe() Observation {
	limits := *d.group.Limits
	limits.Order = policy.Order{} // The queue of a kept group leaves some Machines out.
	var newest *clusterv1.MachineSet
	if d.newest != nil {
		newest = d.newest.Desired
	}
	foreign := !Decided(d.group.MachineSets)
	equals := d.equals()
	began := rolloutBegan(d.group.MachineDeployment, newest, d.group.Machines)
	members := func(yield func(Member) bool) {
		for _, m := range d.group.Machines {
			set := d.owner(m)
			isNew := newest != nil && Owns(newest, m) || equals.Has(set)
			if !isNew && (!IsUpdating(m) || set == "") {
				continue
			}
			v := memberOf(m, newest, began, d.group.order(), d.group.past)
			v.New = isNew
			if foreign && v.Updating {
				v.Began = d.group.past(updatingSince(m))
			}
			if !yield(v) {
				return
			}
		}
	}
	o := limits.Observe(members, d.group.began(newest), d.group.Now)
	o.Progress.recall(d.group.MachineDeployment, newest, d.group.Machines)
	o.queue = d.queue()
	return o
}
