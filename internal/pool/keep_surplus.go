package pool

import (
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// spread says how many Machines each MachineSet of a kept group loses, because surplus more exist
// than spec.replicas asks for:
//   - First Machines that a person or an autoscaler asked to delete.
//   - Then Machines that need remediation. Those of the new MachineSet go first, because its
//     controller is about to delete them anyway: a healthy Machine would be deleted in addition.
//   - Then all others, from the first MachineSet of old to the last, and at last the new one.
//
// Each MachineSet deletes its Machines in the same order; see [SetFacts.DeletionOrder]. No
// MachineSet loses more than it has.
func spread(surplus int32, old []headcount, fresh headcount) (fromOld []int32, fromNew int32) {
	fromOld = make([]int32, len(old))
	take := func(lost *int32, most int32) {
		n := max(min(surplus, most), 0)
		*lost += n
		surplus -= n
	}
	for i, h := range old {
		take(&fromOld[i], h.asked)
	}
	take(&fromNew, fresh.asked)
	take(&fromNew, fresh.broken)
	for i, h := range old {
		take(&fromOld[i], h.broken)
	}
	for i, h := range old {
		take(&fromOld[i], h.alive-fromOld[i])
	}
	take(&fromNew, fresh.alive-fromNew)
	return fromOld, fromNew
}

// byDeletion sorts the Machines of a MachineSet in the order in which its controller deletes them.
func (d *draft) byDeletion(
	set *clusterv1.MachineSet, list []*clusterv1.Machine,
) []*clusterv1.Machine {
	f := SetFacts{
		MachineSet: set, Machines: list, Now: d.group.Now,
		Policy: SetPolicy{HoldUpdating: d.group.Keep},
	}
	order, err := f.DeletionOrder()
	if err != nil {
		// The MachineSet controller returns the error, and deletes none.
		return slices.Clone(list)
	}
	sorted := make([]*clusterv1.Machine, 0, len(order))
	for _, c := range order {
		sorted = append(sorted, c.Machine)
	}
	return sorted
}
