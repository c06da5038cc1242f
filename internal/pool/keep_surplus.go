package pool

import (
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/policy"
)

// spread returns how many Machines each MachineSet of a kept group loses, because surplus more
// exist than spec.replicas asks for. least is how many must be available. They go in this order:
//   - Machines that a person or an autoscaler asked to delete.
//   - Machines that need remediation. Those of the new MachineSet go first, because its controller
//     is about to delete them anyway: a healthy Machine would be deleted in addition.
//   - Machines that have no Node, or whose update failed.
//   - All others of the old MachineSets, from the first of old to the last, as long as enough are
//     available.
//   - Machines of the new MachineSet that are being updated.
//   - All others, those of the new MachineSet last.
//
// Each MachineSet deletes its Machines in the same order; see [SetFacts.DeletionOrder]. No
// MachineSet loses more than it has.
func spread(
	surplus int32, old []headcount, fresh headcount, least int32,
) (fromOld []int32, fromNew int32) {
	fromOld = make([]int32, len(old))
	take := func(lost *int32, most int32) {
		n := max(min(surplus, most), 0)
		*lost += n
		surplus -= n
	}
	each := func(most func(headcount) int32) {
		for i, h := range old {
			take(&fromOld[i], most(h))
		}
	}
	each(func(h headcount) int32 { return h.asked })
	take(&fromNew, fresh.asked)
	take(&fromNew, fresh.broken)
	each(func(h headcount) int32 { return h.broken })
	take(&fromNew, fresh.idle)
	each(func(h headcount) int32 { return h.idle })
	spare := fresh.serving - least
	for _, h := range old {
		spare += h.serving
	}
	for i, h := range old {
		before := fromOld[i]
		take(&fromOld[i], min(h.alive-before, h.updating+max(spare, 0)))
		spare -= max(fromOld[i]-before-h.updating, 0)
	}
	take(&fromNew, fresh.updating)
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
		MachineSet: set, Deployment: d.group.MachineDeployment, Machines: list, Now: d.group.Now,
		Clock: d.group.Clock,
	}
	if d.group.Limits != nil {
		f.Policy = policy.Policy(*d.group.Limits)
	}
	f.Policy.Guarded = d.group.Keep
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
