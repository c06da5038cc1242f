package fleet

// RolloutMove is what begins now. At most one of its fields is above zero for a control plane.
type RolloutMove struct {
	// Create machines at the new version, Delete machines at an old one, begin to Update machines in place.
	Create, Delete, Update int
}

// Rollout is what is known of the machines of a control plane or a pool.
type Rollout struct {
	// Desired is spec.replicas.
	Desired int
	// Old counts machines at an old version that nothing happens to, Updating those that are being updated in place, New those at the new
	// version that are available, Coming those at the new version that are not yet, and Going those that are being deleted: these are in none of the others.
	Old, Updating, New, Coming, Going int
	// MaxSurge and MaxUnavailable are numbers of machines. Where both are zero, MaxUnavailable counts as 1, as Cluster API has it.
	MaxSurge, MaxUnavailable int
	InPlace                  bool
}

// moving counts machines that are created, deleted, or updated in place.
func (r Rollout) moving() int { return r.Updating + r.Coming + r.Going }

// DecidePool says what a pool does next. At no time are there more than Desired + MaxSurge machines, those that are being deleted included: a
// MachineDeployment creates none in the place of one that still exists. Nor, as far as it is the rollout's doing, are there fewer than
// Desired - MaxUnavailable that are available. An update in place always counts as disruption.
func DecidePool(p Rollout) RolloutMove {
	fresh := p.Updating + p.New + p.Coming
	available := p.Old + p.New
	mayGo := min(p.Old, max(0, available-(p.Desired-MaxUnavailable(p.MaxSurge, p.MaxUnavailable))))
	create := max(0, min(p.Desired-fresh, p.Desired+p.MaxSurge-p.Old-fresh-p.Going))
	if !p.InPlace {
		return RolloutMove{Create: create, Delete: mayGo}
	}
	update := min(mayGo, max(0, p.Desired-fresh))
	move := RolloutMove{Update: update, Delete: mayGo - update}
	// What is missing is made. A surge is not used up, but for one machine where nothing could go on otherwise: it is deleted in the end (Cluster API's
	// issue 14160).
	move.Create = max(0, create-p.MaxSurge)
	if idle := p.moving()+mayGo == 0; create > 0 && move.Create == 0 && idle {
		move.Create = 1
	}
	return move
}

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

// MaxUnavailable is how many machines of a pool may be missing, by what its object says.
func MaxUnavailable(maxSurge, maxUnavailable int) int {
	if maxSurge == 0 && maxUnavailable == 0 {
		return 1
	}
	return maxUnavailable
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
