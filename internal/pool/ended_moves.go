package pool

import (
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Moves end in the middle of a rollout: by a pause, a second change of the template, or because the
// strategy becomes OnDelete, or the policy goes that has groups with OnDelete updated in place. The
// MachineSets have their numbers for the move then. Without its marks they would delete Machines.

// countMoves adds to the replicas of a MachineSet that receives no Machines now those that moved
// there before and are not counted yet. Stock never counts them: the MachineSet controller then
// moves or deletes as many others, which may be available.
func (d *draft) countMoves(current, desired *clusterv1.MachineSet) {
	if !d.group.InPlaceUpdates || d.group.Keep {
		return
	}
	counted := AcknowledgedMoves(current)
	for _, name := range PendingMoves(current, d.owned(current)) {
		if !slices.Contains(counted, name) {
			d.counted = append(d.counted, name)
			*desired.Spec.Replicas++
		}
	}
}

// keepDeparting raises a MachineSet that an earlier plan tells to move Machines to those that it
// still has. With the strategy OnDelete no rollout moves or deletes a Machine.
func (d *draft) keepDeparting(current, desired *clusterv1.MachineSet) {
	if !d.endsMoves() || !movesAway(current) {
		return
	}
	alive := int32(countAlive(d.owned(current))) // #nosec G115 -- a number of Machines
	*desired.Spec.Replicas = max(*desired.Spec.Replicas, alive)
}

// receiveLate lets the MachineSets that received Machines accept those that are still moved by an
// earlier plan: a MachineSet deletes a Machine that it neither asks for nor accepts. Caches may be
// behind, so this ends only when those MachineSets have no Machines that could move.
func (d *draft) receiveLate() {
	if !d.endsMoves() {
		return
	}
	if d.newest != nil && d.newest.Current != nil {
		d.rollout.New.ReceiveFrom = d.stillSending(d.newest.Current)
	}
	d.rollout.Old = slices.Clone(d.rollout.Old)
	for i, s := range d.rollout.Old {
		d.rollout.Old[i].ReceiveFrom = d.stillSending(d.old[s.Name].Current)
	}
}

// stillSending returns the MachineSets with Machines that a MachineSet accepts Machines from by an
// earlier plan, sorted.
func (d *draft) stillSending(set *clusterv1.MachineSet) []string {
	var from []string
	for _, other := range d.group.MachineSets {
		if ReceivesFrom(set, other.Name) && len(d.owned(other)) > 0 {
			from = append(from, other.Name)
		}
	}
	slices.Sort(from)
	return from
}

// endsMoves reports whether the rules for the strategy OnDelete end the moves of earlier plans.
func (d *draft) endsMoves() bool {
	return d.rollout.OnDelete && !d.group.Keep && d.rollout.InPlaceUpdates
}
