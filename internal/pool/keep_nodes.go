package pool

import (
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// nodeTimeout is how long a new Machine may have no Node if the UpdatePolicy has no deadline: twice
// what MachineHealthChecks allow by default.
const nodeTimeout = 20 * time.Minute

// nodeDue is when a Machine must have a Node.
func (d *draft) nodeDue(m *clusterv1.Machine) time.Time {
	most := nodeTimeout
	if l := d.group.Limits; l != nil && l.MachineDeadline > 0 {
		most = l.MachineDeadline
	}
	return d.group.past(m.CreationTimestamp.Time).Add(most)
}

// awaitNodes has the plan made again when a Machine of an old MachineSet must have a Node.
func (d *draft) awaitNodes() {
	for _, m := range d.group.Machines {
		due := d.nodeDue(m)
		waits := !m.Status.NodeRef.IsDefined() && !isDeleting(m) && d.old[d.owner(m)] != nil
		if waits && d.group.Now.Before(due) && (d.wake.IsZero() || due.Before(d.wake)) {
			d.wake = due
		}
	}
}
