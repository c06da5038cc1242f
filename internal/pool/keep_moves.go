package pool

import (
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// A MachineSet controller acts on the spec that it has read. A plan that withdraws a move may come
// too late: the Machine still moves. So an earlier plan counts until the controller has read the
// new one.

// alive is how many Machines of a MachineSet are not being deleted.
func (d *draft) alive(set *clusterv1.MachineSet) int32 {
	return int32(countAlive(d.owned(set))) // #nosec G115 -- a number of Machines
}

// mayStillMove reports whether the controller of a MachineSet may move Machines by an earlier plan:
// the MachineSet has more than it asks for and names another one, or the controller has not read
// spec.
func mayStillMove(set *clusterv1.MachineSet, owned int32) bool {
	told := movesAway(set) && deref(set.Spec.Replicas) < owned
	return owned > 0 && (told || isUnread(set))
}

// stillMoves is mayStillMove for any MachineSet of the group but the one with the name except.
func (d *draft) stillMoves(except string) bool {
	if d.movers == nil {
		d.movers = sets.New[string]()
		for _, set := range d.group.MachineSets {
			owned := int32(len(d.owned(set))) // #nosec G115 -- a number of Machines
			if mayStillMove(set, owned) {
				d.movers.Insert(set.Name)
			}
		}
	}
	return d.movers.Len() > 1 || d.movers.Len() == 1 && !d.movers.Has(except)
}

// mayBegin returns how many Machines of an old MachineSet may move beside those that go back. While
// others may still move, only the move that an earlier plan asked for continues.
func (d *draft) mayBegin(s Sizes, h headcount, back int32) int32 {
	if !d.stillMoves(s.Name) {
		return math.MaxInt32
	}
	if moveTarget(d.old[s.Name].Current) != d.newest.Desired.Name {
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

// fewSets is how many MachineSets may all be named in the mark to receive of each of them. A group
// that is blocked gets one with each change of its template.
const fewSets = 20

// senders returns the names of the other MachineSets from which a Machine may come, sorted. If
// there are many, those are left out that have no Machines and were not told to move any.
func (d *draft) senders(name string) []string {
	if d.sending == nil {
		d.sending = d.allSenders()
	}
	return slices.DeleteFunc(slices.Clone(d.sending), func(other string) bool { return other == name })
}

func (d *draft) allSenders() []string {
	names := []string{}
	for _, set := range d.group.MachineSets {
		if len(d.group.MachineSets) <= fewSets || len(d.owned(set)) > 0 || movesAway(set) {
			names = append(names, set.Name)
		}
	}
	if d.newest != nil && d.newest.Current == nil {
		names = append(names, d.newest.Desired.Name)
	}
	slices.Sort(names)
	return names
}
