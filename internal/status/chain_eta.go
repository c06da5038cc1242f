package status

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// What is said instead of an estimate.
const (
	etaNotRecorded    = "the controller of this upgrade does not record how long steps take"
	etaNoControlPlane = "no step of the control plane has ended yet in this upgrade"
	etaNoWorkers      = "no worker step has ended yet in this upgrade"
	etaNoPlan         = "the plan is unknown"
)

// span is the shortest, mean and longest of some durations.
type span struct {
	measured         int
	least, sum, most time.Duration
}

// longest bounds what is believed of recorded times, so that nonsense there stays nonsense of that size.
const longest = 10 * 365 * 24 * time.Hour

func (s *span) add(d time.Duration) {
	d = min(d, longest)
	if s.measured == 0 || d < s.least {
		s.least = d
	}
	s.measured++
	s.sum += d
	s.most = max(s.most, d)
}

func (s *span) mean() time.Duration { return s.sum / time.Duration(max(s.measured, 1)) }

// workLeft is what an upgrade has left to do, counted from a time.
type workLeft struct {
	since time.Time
	// controlPlane counts its steps. machines are those of the steps of workers, as far as they move one after another; see computeLoad.
	controlPlane, machines int
}

// takes is how long it takes, in whole seconds.
func (w workLeft) takes(step, machine time.Duration) time.Duration {
	seconds := float64(w.controlPlane)*step.Seconds() + float64(w.machines)*machine.Seconds()
	return time.Duration(math.Round(min(seconds, longest.Seconds()))) * time.Second
}

// computeEstimate multiplies what is left by how long it took so far. A step of workers counts by the machine: load says for a version how
// many moved one after another when workers went there.
func computeEstimate(done []chain.Step, load func(to version.Version) int, left workLeft) Estimate {
	if left.controlPlane == 0 && left.machines == 0 {
		return Estimate{}
	}
	controlPlane, machine := measure(done, load)
	switch {
	case left.controlPlane > 0 && controlPlane.measured == 0:
		return Estimate{Unknown: etaNoControlPlane}
	case left.machines > 0 && machine.measured == 0:
		return Estimate{Unknown: etaNoWorkers}
	}
	return Estimate{
		Since:  left.since,
		Least:  left.takes(controlPlane.least, machine.least),
		Likely: left.takes(controlPlane.mean(), machine.mean()),
		Most:   left.takes(controlPlane.most, machine.most),
	}
}

// measure finds out how long a step of the control plane took, and how long workers did by the machine. Clocks that were set back measure nothing.
func measure(done []chain.Step, load func(to version.Version) int) (controlPlane, machine span) {
	for _, s := range done {
		if s.ControlPlane.IsZero() || s.ControlPlane.Before(s.Began) {
			continue
		}
		controlPlane.add(s.ControlPlane.Sub(s.Began))
		if n := load(s.To); n > 0 && !s.Workers.IsZero() && !s.Workers.Before(s.ControlPlane) {
			machine.add(s.Workers.Sub(s.ControlPlane) / time.Duration(n))
		}
	}
	return controlPlane, machine
}

// groupLoad is a group that moves, and its machines.
type groupLoad struct {
	kind     plan.GroupKind
	machines int
}

// computeLoad is how many machines move one after another when groups go to a version: all where one group moves at a time, fewer where
// more do. MachinePools begin when MachineDeployments are done.
func computeLoad(groups []groupLoad, concurrency int) int {
	load := 0
	for _, kind := range []plan.GroupKind{plan.MachineDeployment, plan.MachinePool} {
		slots := make([]int, min(max(concurrency, 1), max(len(groups), 1)))
		for _, g := range groups {
			if g.kind == kind {
				slots[slices.Index(slots, slices.Min(slots))] += g.machines
			}
		}
		load += slices.Max(slots)
	}
	return load
}

// estimate is when the rest of an upgrade should be done. It is counted from the last thing that is recorded, so that it does not change
// while nothing else does.
func (c *chainComputation) estimate(report Chain) Estimate {
	if report.State != ChainUpgrading && report.State != ChainHeld {
		return Estimate{}
	}
	p := c.progress()
	switch {
	case !c.recordsSteps():
		return Estimate{Unknown: etaNotRecorded}
	case c.decision.Reason == chain.NoSource || c.decision.Reason == chain.NoPath:
		return Estimate{Unknown: etaNoPlan}
	case p == nil:
		return Estimate{Unknown: etaNoControlPlane}
	}
	held, left := c.heldTimes(), c.workLeft(*p, report.Steps)
	left.since = left.since.Add(heldBetween(held, left.since, c.now))
	e := computeEstimate(withoutHolds(p.Steps, held), c.loadOf, left)
	if report.State == ChainHeld || len(report.Holds) > 0 {
		e.Since = time.Time{}
	}
	return e
}

// loadOf is that of a step of workers that has been done: of all groups that are there or beyond.
func (c *chainComputation) loadOf(to version.Version) int {
	var groups []groupLoad
	for _, g := range c.state.Groups {
		if o := version.Compare(g.Version, to); g.Exists && !g.Deleting && (o == version.Greater || o == version.Equal) {
			groups = append(groups, c.groupLoad(g))
		}
	}
	return computeLoad(groups, c.state.Concurrency)
}

func (c *chainComputation) groupLoad(g chain.Group) groupLoad {
	_, machines := c.countGroup(g, g.Version)
	return groupLoad{kind: g.Kind, machines: machines}
}

// workLeft is what comes, and all of what is running, from when that began.
func (c *chainComputation) workLeft(p chain.Progress, steps []Step) workLeft {
	left := workLeft{since: p.Began.UTC()}
	if n := len(p.Steps); n > 0 {
		last := p.Steps[n-1]
		left.since = cmp.Or(last.Workers, last.ControlPlane, last.Began).UTC()
		if last.ControlPlane.IsZero() {
			left.controlPlane++
		}
	}
	for _, s := range steps {
		if s.State == StepNext && s.Kind == plan.ControlPlaneUpgrade {
			left.controlPlane++
		}
	}
	for _, groups := range c.stopsLeft(steps) {
		left.machines += computeLoad(groups, c.state.Concurrency)
	}
	return left
}

// stopsLeft are the groups that move at each stop that is not done. Those that have moved already are
// part of a stop at which others still do.
func (c *chainComputation) stopsLeft(steps []Step) map[version.Version][]groupLoad {
	stops := map[version.Version][]groupLoad{}
	for _, s := range steps {
		if s.State == StepDone {
			continue
		}
		for _, g := range c.state.Groups {
			if slices.Contains(s.Groups, g.Name) {
				stops[s.To] = append(stops[s.To], c.groupLoad(g))
			}
		}
	}
	return stops
}
