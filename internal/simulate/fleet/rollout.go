package fleet

// RolloutMove is what begins now. At most one of its fields is above zero for a control plane.
type RolloutMove struct {
	// Create machines at the new version, Delete machines at an old one, begin to Update machines in place.
	Create, Delete, Update int
}

// Rollout is what is known of the machines of a control plane.
type Rollout struct {
	// Desired is spec.replicas.
	Desired int
	// Old counts machines at an old version that nothing happens to, Updating those that are being updated in place, New those at the new
	// version that are available, Coming those at the new version that are not yet, and Going those that are being deleted: these are in none of the others.
	Old, Updating, New, Coming, Going int
	// MaxSurge is a number of machines.
	MaxSurge int
	InPlace  bool
}

// moving counts machines that are created, deleted, or updated in place.
func (r Rollout) moving() int { return r.Updating + r.Coming + r.Going }

// DecideControlPlane says what a control plane does next: one thing to one machine at a time, so that etcd keeps its quorum. Where MaxSurge allows a machine
// more, that is made first, in place too, and one is deleted in the end.
func DecideControlPlane(c Rollout) RolloutMove {
	switch total := c.Old + c.New; {
	case c.moving() > 0:
		return RolloutMove{}
	case total < c.Desired:
		return RolloutMove{Create: 1}
	case c.Old == 0:
		return RolloutMove{}
	case total < c.Desired+c.MaxSurge:
		return RolloutMove{Create: 1}
	case c.InPlace && c.New < c.Desired:
		return RolloutMove{Update: 1}
	default:
		return RolloutMove{Delete: 1}
	}
}

// How many controllers have to act, one after another, until something happens to a machine of a group. Each of them notices the one before by the
// object that this has written.
const (
	// ControlPlaneHops: KubeadmControlPlane's controller makes and deletes machines itself.
	ControlPlaneHops = 1
	// PoolHops: a MachineDeployment's controller has its MachineSet's make or delete one.
	PoolHops = 2
	// MoveHops: in place, a machine is handed over by the controller of the MachineSet that it leaves, and its update begun by that of the one that it joins.
	MoveHops = 3
)
