package pool

import "math"

// ProgressOf returns how far the rollout of a group is by what earlier plans have begun. It counts
// as Decide does for the limits of the group, but for Turn, which it leaves out. Without limits no
// Machine has to soak, and none is overdue. It returns the same errors as Needs.
func ProgressOf(g Group) (Progress, error) {
	if g.Limits == nil {
		g.Limits = &Limits{}
	}
	d, err := begin(g)
	if err != nil {
		return Progress{}, err
	}
	if !g.Keep {
		p, _ := d.progress()
		return p, nil
	}
	p, _ := d.keptProgress()
	return p, nil
}

// progress measures the rollout of a group whose Machines may be replaced.
func (d *draft) progress() (Progress, Observation) {
	o := d.observe()
	return d.rollout.measure(o), o
}

// keptProgress measures the rollout of a kept group.
func (d *draft) keptProgress() (Progress, Observation) {
	var old, back int32
	equals := d.equals()
	for _, s := range d.rollout.Old {
		if !equals.Has(s.Name) {
			old += d.headcount(s.Name).alive
			back += int32(len(d.returning(s.Name))) // #nosec G115 -- a number of Machines
		}
	}
	o := d.observe()
	p := o.Progress
	p.Kept, p.Replicas = true, d.rollout.Replicas
	p.Touched = max(p.Replicas-old, 0)
	p.Replaced = max(p.Touched-o.moved, 0)
	p.Touched += back              // No limit holds them, and others do not begin beside them.
	failed := int32(len(p.Failed)) // #nosec G115 -- a number of Machines
	p.InFlight = max(p.Touched-p.Done-failed, 0) + o.UpdatingOld
	return p, o
}

// Stage is the part of a rollout that is under way.
type Stage struct {
	// Canary says that it is the canary.
	Canary bool
	// Batch is the number of the batch, from 1; 0 for the canary, and if there are no batches.
	Batch int32
	// End is how many Machines are touched when the stage ends; 0 if there are no batches.
	End int32
}

// Stage returns the part of a rollout that is under way: the first one whose Machines are not all
// done.
func (l Limits) Stage(p Progress) Stage {
	canary := Share(l.Canary, p.Replicas)
	switch {
	case canary > 0 && p.proved() < canary:
		if p.Alone {
			canary = 1
		}
		return Stage{Canary: true, End: canary + p.Replaced}
	case len(l.Batches) == 0:
		return Stage{}
	}
	done, others := p.Done, int32(0)
	if p.Kept {
		// Machines that were created, or are missing, take the place of none that is to be done.
		done, others = max(p.Done-p.Replaced, 0), p.Replaced
	}
	s := Stage{End: canary}
	for s.End <= done && s.End < p.Replicas {
		s = l.next(s, p.Replicas)
	}
	s.End += min(others, math.MaxInt32-s.End)
	return s
}

// proved is how many Machines have shown that the change works.
func (p *Progress) proved() int32 {
	if p.Kept {
		return p.Updated
	}
	return p.Done - p.Replaced
}

// CountBatches returns how many batches there are after the canary; 0 if none are set.
func (l Limits) CountBatches(replicas int32) int32 {
	if len(l.Batches) == 0 {
		return 0
	}
	s := Stage{End: Share(l.Canary, replicas)}
	for range l.Batches {
		if s.End >= replicas {
			return s.Batch
		}
		s = l.next(s, replicas)
	}
	left, size := max(replicas-s.End, 0), l.size(s, replicas)
	return s.Batch + left/size + min(left%size, 1)
}

// next returns the batch after a stage.
func (l Limits) next(s Stage, replicas int32) Stage {
	size := min(l.size(s, replicas), math.MaxInt32-s.End)
	return Stage{Batch: s.Batch + 1, End: s.End + size}
}

// size returns that of the batch after a stage. The last size repeats, and no batch is empty.
func (l Limits) size(s Stage, replicas int32) int32 {
	return max(Share(l.Batches[min(int(s.Batch), len(l.Batches)-1)], replicas), 1)
}
