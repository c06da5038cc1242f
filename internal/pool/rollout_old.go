package pool

import "slices"

// ScaleOld scales the old MachineSets down as far as availability allows.
//
// It assumes the worst: the MachineSet controller may delete available Machines first, an update in
// place makes its Machine unavailable, and unavailable Machines of New slow the rollout down, so
// that a broken template does not reach all Machines. It takes unavailable replicas first, from the
// oldest MachineSet to the newest.
//
// It takes none while a MachineSet may still give up Machines by an earlier plan, which did not
// know of a template that has become current again. Stock does.
//
// Note: Old is sorted by age only if something can be scaled down, as in stock. BreakDeadlock
// depends on the order.
func (r Rollout) ScaleOld() Rollout {
	if r.sum(replicas) == 0 || r.unread() {
		return r
	}
	minAvailable := r.MinAvailable()
	unavailableNew := max(r.New.Replicas-r.New.Counts.Available, 0)
	total := r.New.Replicas + r.sum(replicas)
	s := scaleDown{
		count:        total - r.pendingScaleDown() - minAvailable - unavailableNew,
		available:    r.New.Counts.Available + r.sum(available),
		minAvailable: minAvailable,
	}
	if s.count <= 0 {
		return r
	}
	r.Old = oldestFirst(r.Old)
	for _, unavailableOnly := range []bool{true, false} {
		for i := range r.Old {
			r.Old[i], s = s.take(r.Old[i], unavailableOnly)
		}
	}
	return r
}

// pendingScaleDown is how many existing Machines earlier plans and this one have given up already.
func (r Rollout) pendingScaleDown() int32 {
	pending := func(s Sizes) int32 { return max(s.Counts.Machines-min(s.Replicas, s.Target), 0) }
	return pending(r.New) + r.sum(pending)
}

// scaleDown is what is left to take away.
type scaleDown struct {
	// count is how many replicas may still go.
	count int32
	// available is how many Machines are available in the worst case, minAvailable how many must
	// be.
	available, minAvailable int32
}

// take scales one MachineSet down, and returns what is left. With unavailableOnly it takes only as
// many replicas as are not available.
func (s scaleDown) take(set Sizes, unavailableOnly bool) (Sizes, scaleDown) {
	if s.count <= 0 || set.Target <= 0 {
		return set, s
	}
	most := set.Target
	if unavailableOnly {
		most = max(set.Target-set.Counts.Available, 0)
	}
	down, before := min(most, s.count), s.available
	if down == 0 {
		return set, s
	}
	if set.Counts.Available > 0 {
		down, s = s.bound(set, down)
	}
	if down <= 0 {
		return set, s
	}
	why := Note{Reason: ReasonNoAvailabilityLost}
	if before != s.available {
		why = Note{Reason: ReasonAvailabilitySpare, Count: before, Limit: s.minAvailable}
	}
	s.count = max(s.count-down, 0)
	return set.scaleTo(max(set.Target-down, 0), why), s
}

// bound lowers down so far that deleting Machines of set keeps minAvailable even if available ones
// go first. Replicas without a Machine are free.
func (s scaleDown) bound(set Sizes, down int32) (int32, scaleDown) {
	target := max(set.Target-down, 0)
	deleted := max(set.Counts.Machines-target, 0)
	if deleted == 0 {
		return down, s
	}
	if spare := s.available - s.minAvailable; spare < deleted {
		target = min(set.Counts.Machines-max(spare, 0), set.Target)
		down = max(set.Target-target, 0)
		deleted = max(set.Counts.Machines-target, 0)
	}
	s.available -= min(set.Counts.Available, deleted)
	return down, s
}

// BreakDeadlock gives up one replica of an old MachineSet with unavailable Machines, although that
// may exceed maxUnavailable. It does so only if nothing else can go on: no MachineSet scales, all
// Machines of New are available, and no unavailable Machine of an old MachineSet may become
// available by itself. The MachineSet controller would not take such a Machine first, but an
// available one. An update that failed does not end by itself. Cluster API remediates no Machines
// of old MachineSets, so the rollout would stay blocked.
func (r Rollout) BreakDeadlock() Rollout {
	if r.sum(machines) == 0 || r.sum(machines) == r.sum(available) || r.scaling() || r.Progressing {
		return r
	}
	if r.New.Counts.Available != r.New.Counts.Machines {
		return r
	}
	for i, s := range r.Old {
		if s.Counts.Available == s.Counts.Machines || s.Replicas == 0 {
			continue
		}
		r.Old = slices.Clone(r.Old)
		r.Old[i].Target = s.Replicas - 1
		// The note is on New, as in stock.
		r.New = r.New.note(Note{Reason: ReasonDeadlock})
		return r
	}
	return r
}

// scaling reports whether a MachineSet scales, by an earlier plan or by this one.
func (r Rollout) scaling() bool {
	for _, s := range append([]Sizes{r.New}, r.Old...) {
		if s.Replicas != s.Counts.Machines || s.scaled() {
			return true
		}
	}
	return r.unread()
}

// unread reports whether a MachineSet may give up Machines although it asks for all that it has.
func (r Rollout) unread() bool {
	isUnread := func(s Sizes) bool { return s.Counts.Unread }
	return isUnread(r.New) || slices.ContainsFunc(r.Old, isUnread)
}

// ScaleOldOnDelete is ScaleOld for the strategy OnDelete: it drops replicas whose Machines people
// deleted, so that New creates them, and then lowers the oldest MachineSets if the
// MachineDeployment asks for fewer replicas.
func (r Rollout) ScaleOldOnDelete() Rollout {
	old := r.sum(replicas)
	if old == 0 {
		return r
	}
	down := max(old+r.New.Target-r.Replicas, 0)
	r.Old = oldestFirst(r.Old)
	for i, s := range r.Old {
		if gone := s.Replicas - s.Counts.Machines; s.Replicas > 0 && gone > 0 {
			r.Old[i] = s.scaleTo(s.Replicas-gone, Note{Reason: ReasonMachinesGone})
			down -= gone
		}
	}
	for i, s := range r.Old {
		if down <= 0 {
			break
		}
		if n := min(s.Target, down); n > 0 {
			// Stock subtracts from spec.replicas, not from the target that the first loop has set.
			// So it takes away too few replicas, and takes the rest in the next plan.
			r.Old[i] = s.scaleTo(max(s.Replicas-n, 0), Note{Reason: ReasonReplicasLowered})
			down -= n
		}
	}
	return r
}
