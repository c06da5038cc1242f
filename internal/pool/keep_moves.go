package pool

import (
	"math"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// A MachineSet controller acts on the spec that it has read. A plan that withdraws a move may come
// too late: the Machine still moves. So an earlier plan counts until the controller has read the
// new one.

// mayStillMove reports whether the controller of a MachineSet may move Machines by an earlier plan:
// the MachineSet has more than it asks for and names another one, or the controller has not read
// spec.
func mayStillMove(set *clusterv1.MachineSet, owned int32) bool {
	target := set.Annotations[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation]
	told := target != "" && target != set.Name && deref(set.Spec.Replicas) < owned
	return owned > 0 && (told || isUnread(set))
}

// stillMoves is mayStillMove for any MachineSet of the group but the one with the name except.
func (d *draft) stillMoves(except string) bool {
	return slices.ContainsFunc(d.group.MachineSets, func(set *clusterv1.MachineSet) bool {
		owned := int32(len(d.owned(set))) // #nosec G115 -- a number of Machines
		return set.Name != except && mayStillMove(set, owned)
	})
}

// mayBegin returns how many Machines of an old MachineSet may move beside those that go back. While
// others may still move, only the move that an earlier plan asked for continues.
func (d *draft) mayBegin(s Sizes, h headcount, back int32) int32 {
	if !d.stillMoves(s.Name) {
		return math.MaxInt32
	}
	target := d.old[s.Name].Current.Annotations[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation]
	if target != d.newest.Desired.Name {
		return 0
	}
	return max(h.alive-s.Replicas-back, 0)
}

// atMost lowers how many Machines may move.
func (h headcount) atMost(most int32) headcount {
	h.sick = min(h.sick, most)
	h.well = min(h.well, most-h.sick)
	return h
}
