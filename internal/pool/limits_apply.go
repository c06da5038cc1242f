package pool

import (
	"math"
	"slices"
)

// limit lowers what the rules of the strategy have planned to what the limits of the UpdatePolicy
// leave.
func (d *draft) limit() {
	if d.group.Limits == nil {
		return
	}
	planned, moves := d.rollout.Old, slices.ContainsFunc(d.rollout.Old, Sizes.moves)
	over := d.over()
	d.keepDeleting()
	p, o := d.progress()
	p.Turn = o.turn(p, d.rollout, false)
	d.ask(p, moves)
	a := d.allowance
	if over > 0 {
		a.More = 0 // No Machine moves meanwhile.
	}
	if over > 0 || a.More == 0 && a.Reason.Blocks() {
		d.stopMoves()
	}
	d.rollout = d.rollout.within(a, p, o).giveUp(over, planned)
	d.giveUpBroken(planned, p, moves)
}

// over is how many Machines spec.replicas and maxSurge do not ask for, in a group whose Machines
// move. Where they do not move, the limits know. Those that an earlier plan moves are counted when
// they have arrived.
func (d *draft) over() int32 {
	r, moves := d.rollout, false
	for _, s := range r.Old {
		if s.moves() && s.leaving() > 0 && movesAway(d.old[s.Name].Current) {
			return 0
		}
		moves = moves || s.moves()
	}
	if !moves {
		return 0
	}
	return max(r.New.Replicas+r.sum(replicas)-r.Replicas-r.Surge, 0)
}

// keepDeleting has old MachineSets that are still to delete Machines by an earlier plan end that.
// Those Machines would move otherwise.
func (d *draft) keepDeleting() {
	d.rollout.Old = slices.Clone(d.rollout.Old)
	for i, s := range d.rollout.Old {
		set := d.old[s.Name].Current
		if s.moves() && d.alive(set) > s.Replicas && !movesAway(set) {
			d.rollout.Old[i].MoveTo, d.rollout.Old[i].Target = "", max(s.Target, s.Replicas)
		}
	}
}

// giveUp lets old MachineSets give up over Machines in all, as planned. None of them may move.
func (r Rollout) giveUp(over int32, planned []Sizes) Rollout {
	over -= r.sum(Sizes.lost)
	r.Old = slices.Clone(r.Old)
	for i, s := range r.Old {
		n := max(min(over, s.Target-planned[i].Target), 0)
		r.Old[i].Target -= n
		over -= n
	}
	return r
}

// giveUpBroken lets old MachineSets give up Machines as planned that need remediation in the middle
// of an update: maxInFlight holds only others, because these are in flight already. Nothing else
// ends their update.
func (d *draft) giveUpBroken(planned []Sizes, p Progress, moves bool) {
	if d.allowance.Reason != ReasonMaxInFlight {
		return
	}
	l := *d.group.Limits
	l.MaxInFlight = 0
	more := l.allowPlan(p, moves).More - d.allowance.More
	d.rollout.Old = slices.Clone(d.rollout.Old)
	for i, s := range d.rollout.Old {
		var broken int32
		for _, m := range d.machinesOf(s.Name) {
			if IsUpdating(m) && NeedsRemediation(m) && !isDeleting(m) {
				broken++
			}
		}
		n := max(min(more, broken-s.leaving(), s.Target-planned[i].Target), 0)
		d.rollout.Old[i].Target -= n
		more -= n
	}
}

// Within limits what the rules of the strategy have planned, but lets no deletion take the place of
// a move. keep says that no rollout may create or delete a Machine. The progress that it returns is
// what the allowance depends on.
func (r Rollout) Within(l Limits, o Observation, keep bool) (Rollout, Allowance, Progress) {
	p := r.measure(o)
	p.Turn = o.turn(p, r, keep)
	a := l.allowPlan(p, slices.ContainsFunc(r.Old, Sizes.moves))
	return r.within(a, p, o), a, p
}

// within lowers a plan to an allowance.
func (r Rollout) within(a Allowance, p Progress, o Observation) Rollout {
	done := p.Done
	if p.Turn != nil && p.Turn.updating && r.total() <= r.Replicas+r.Surge {
		done = 0 // Old Machines of the next place stay also if spare ones have replaced them.
	}
	return r.atMost(a.More, done).holdOthers(o.queue).fill()
}

// measure adds to the progress what the numbers tell.
func (r Rollout) measure(o Observation) Progress {
	p := o.Progress
	p.Replicas = r.Replicas
	p.Touched = r.touched()
	p.Done = min(p.Done, r.New.Replicas)
	// Old Machines that done ones have replaced go at once. They are in flight before others are, also
	// those that the plan does not give up yet, because the counters of a MachineSet are behind.
	before := r.atMost(0, p.Done)
	behind := max(before.sum(func(s Sizes) int32 { return s.Target })-max(r.Replicas-p.Done, 0), 0)
	p.InFlight = before.inFlight(p, o.UpdatingOld) + behind
	p.Updating += before.sum(func(s Sizes) int32 {
		if !s.moves() {
			return 0
		}
		return max(s.Counts.Machines-s.Target, 0)
	})
	return p
}

// holdOthers keeps a strict order between old MachineSets: those give up no Machines that have none
// of the next place. If the strategy has chosen others only, those with the next place give up as
// many, within maxUnavailable. What spec.replicas and maxSurge do not ask for goes all the same.
func (r Rollout) holdOthers(q *queue) Rollout {
	if q == nil || !q.ok || r.total() > r.Replicas+r.Surge {
		return r
	}
	chosen := r.sum(Sizes.lost)
	here := make([]int32, len(r.Old))
	r.Old = slices.Clone(r.Old)
	for i, s := range r.Old {
		here[i] = q.here(s.Name)
		r.Old[i].Target = max(s.Target, s.Replicas-here[i])
	}
	if chosen == 0 || r.sum(Sizes.lost) > 0 {
		return r
	}
	going := r.sum(Sizes.leaving)
	chosen = min(chosen, r.New.Counts.Available+r.sum(available)-going-r.MinAvailable())
	for i, s := range r.Old {
		n := max(min(chosen, here[i], s.Replicas), 0)
		r.Old[i].Target = s.Target - n
		chosen -= n
	}
	return r
}

// lost is how many Machines a plan takes from a MachineSet.
func (s Sizes) lost() int32 { return max(s.Replicas-s.Target, 0) }

// fill creates what is missing in the group. PreferInPlace leaves it out while old MachineSets
// shrink, which the limits may have prevented.
func (r Rollout) fill() Rollout {
	if missing := r.Replicas - r.total(); missing > 0 {
		r.New.Target = max(r.New.Target, r.New.Replicas+missing)
	}
	return r
}

// stopMoves has old MachineSets delete what is too many. No Machine may move to New any more, so a
// spare Machine of New takes the place of an old one, as at the end of a rollout. A move that an
// earlier plan has begun ends.
func (d *draft) stopMoves() {
	d.rollout.Old = slices.Clone(d.rollout.Old)
	for i, s := range d.rollout.Old {
		moving := moveTarget(d.old[s.Name].Current) == s.MoveTo
		if s.Counts.Machines <= s.Replicas || !moving {
			d.rollout.Old[i].MoveTo = ""
		}
	}
}

// leaving is how many Machines go by earlier plans: those beyond the replicas of the MachineSet.
func (s Sizes) leaving() int32 { return max(s.Counts.Machines-s.Replicas, 0) }

// moves reports whether a MachineSet gives its Machines to the new one.
func (s Sizes) moves() bool { return s.MoveTo != "" }

// allowPlan returns what the limits allow a plan. moves says that the plan moves Machines, so that
// they are updated in place.
//
// maxInFlight does not bound moves: the engine of updates lets maxInFlight Machines begin, of all
// MachineDeployments of the policy, and asks the updater which of the moved ones go first. But
// nothing holds a Machine that has moved. So if a limit may hold the rollout, maxInFlight bounds
// moves, and the Machines that are being updated count.
func (l Limits) allowPlan(p Progress, moves bool) Allowance {
	if moves {
		p.InFlight = p.Updating
		if !l.mayHold() {
			l.MaxInFlight = 0
		}
		// A spare Machine that is done has been the first.
		p.Alone = p.Updated == 0 && (p.Kept || p.Done <= p.Replaced)
	}
	return l.Allow(p)
}

// mayHold reports whether one of the limits, but for the canary, may hold a rollout that has begun.
func (l Limits) mayHold() bool {
	return l.MaxFailures > 0 || l.MachineDeadline > 0 || l.GroupDeadline > 0 || len(l.Batches) > 0 ||
		l.Order.Strict()
}

// ask asks the limits, and notes when time alone changes their answer.
func (d *draft) ask(p Progress, moves bool) {
	d.allowance = d.group.Limits.allowPlan(p, moves)
	if p.Touched < p.Replicas {
		d.wake = p.Wake
	}
}

// touched is how many Machines are of New, or are about to move there, or have left the old
// MachineSets by earlier plans.
func (r Rollout) touched() int32 {
	moving := r.sum(func(s Sizes) int32 { return s.Moving })
	return max(r.New.Replicas, r.New.Counts.Machines+moving, r.Replicas-r.sum(replicas), 0)
}

// atMost limits a plan to more Machines beyond those that are touched, of which done are done. New
// may also create what is missing, and old MachineSets may give up what done Machines have replaced
// and what spec.replicas does not ask for any more. The newest of them give up their Machines last.
func (r Rollout) atMost(more, done int32) Rollout {
	vacant := max(r.Replicas-r.sum(replicas)-r.New.Replicas, 0)
	grown := max(r.New.Target-r.New.Replicas-vacant, 0)
	if grown > more {
		r.New.Target -= grown - more
		grown = more
	}
	replaced := max(r.sum(replicas)-max(r.Replicas-done, 0), 0)
	if slices.ContainsFunc(r.Old, Sizes.moves) {
		replaced = 0 // A move touches one more Machine.
	}
	back := r.sum(func(s Sizes) int32 { return max(s.Replicas-s.Target, 0) }) -
		replaced - (more - grown)
	r.Old = slices.Clone(r.Old)
	for i := len(r.Old) - 1; i >= 0 && back > 0; i-- {
		n := min(back, max(r.Old[i].Replicas-r.Old[i].Target, 0))
		r.Old[i].Target += n
		back -= n
	}
	return r
}

// inFlight is how many Machines are being updated, created or deleted by a plan: those of New that
// are neither done nor failed, those that leave old MachineSets, those that nobody has created so
// far in the place of one that left, and updatingOld, those of old MachineSets that are updated.
func (r Rollout) inFlight(p Progress, updatingOld int32) int32 {
	fresh := max(r.New.Target, r.New.Counts.Machines)
	failed := int32(len(p.Failed)) // #nosec G115 -- a number of Machines
	leaving := r.sum(func(s Sizes) int32 { return max(s.Counts.Machines-s.Target, 0) })
	vacant := max(p.Touched-fresh, 0)
	return max(fresh-p.Done-failed, 0) + max(leaving, vacant) + updatingOld
}

// limitMoves returns how many Machines of a kept group may move by the limits of the UpdatePolicy.
func (d *draft) limitMoves() int32 {
	if d.group.Limits == nil {
		return math.MaxInt32
	}
	p, o := d.keptProgress()
	p.Turn = o.turn(p, d.rollout, true)
	d.ask(p, true)
	return d.allowance.More
}
