package status

import (
	"slices"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// stepsLeft are the steps that are not done, in order, but that of the control plane that is running.
// Workers have one step for each version that groups stop at: those that are there, those that are on
// their way, and those that come. So a step stays one row until all of its groups are there.
func (c *chainComputation) stepsLeft() []Step {
	var steps []Step
	add := func(s Step) {
		at := slices.IndexFunc(steps, func(o Step) bool { return o.Kind == s.Kind && o.To.Equal(s.To) })
		if at < 0 {
			steps = append(steps, s)
			return
		}
		steps[at] = mergeGroups(steps[at], s)
	}
	for _, g := range c.state.Groups {
		if c.groupMoves(g) {
			add(c.runningGroup(g))
		}
	}
	for _, o := range c.next {
		if o.Kind == plan.ControlPlaneUpgrade {
			_, machines := c.countControlPlane()
			add(Step{State: StepNext, Kind: o.Kind, From: o.From, To: o.To, Machines: machines})
			continue
		}
		for _, name := range o.Groups {
			i := slices.IndexFunc(c.state.Groups, func(g chain.Group) bool { return g.Name == name })
			if i >= 0 && !contains(steps, o.To, name) {
				add(c.nextGroup(c.state.Groups[i], o))
			}
		}
	}
	for i := range steps {
		if steps[i].Kind == plan.WorkersUpgrade {
			steps[i] = c.withArrived(steps[i])
		}
	}
	return steps
}

// contains reports whether a group has a part in a step to a version.
func contains(steps []Step, to version.Version, group string) bool {
	return slices.ContainsFunc(steps, func(s Step) bool {
		return s.To.Equal(to) && slices.Contains(s.Groups, group)
	})
}

// runningGroup is the part that a group which is on its way has in a step.
func (c *chainComputation) runningGroup(g chain.Group) Step {
	from := g.Oldest
	if from.Equal(g.Version) {
		from = version.Version{}
	}
	s := Step{
		State: StepRunning, Kind: plan.WorkersUpgrade, GroupKind: g.Kind, Groups: []string{g.Name},
		From: from, To: g.Version, Began: c.workersBegan(g),
	}
	s.Updated, s.Machines = c.countGroup(g, g.Version)
	return s
}

// nextGroup is the part that a group which comes has in a step.
func (c *chainComputation) nextGroup(g chain.Group, o plan.Operation) Step {
	s := Step{
		State: StepNext, Kind: o.Kind, GroupKind: g.Kind, Groups: []string{g.Name}, From: o.From, To: o.To,
	}
	_, s.Machines = c.countGroup(g, o.To)
	return s
}

// withArrived adds the groups that are at the version of a step, before those that are not.
func (c *chainComputation) withArrived(s Step) Step {
	for _, g := range slices.Backward(c.state.Groups) {
		if !g.Exists || g.Deleting || !g.Version.Equal(s.To) || slices.Contains(s.Groups, g.Name) {
			continue
		}
		there := Step{
			State: s.State, Kind: s.Kind, GroupKind: g.Kind, Groups: []string{g.Name}, From: s.From, To: s.To,
			Began: c.workersBegan(g),
		}
		there.Updated, there.Machines = c.countGroup(g, s.To)
		s = mergeGroups(there, s)
	}
	return s
}

// mergeGroups puts two parts of a step together, which different groups have.
func mergeGroups(a, b Step) Step {
	merged := a
	if b.State == StepRunning {
		merged.State = StepRunning
	}
	if a.GroupKind != b.GroupKind {
		merged.GroupKind = ""
	}
	if !a.From.Equal(b.From) {
		merged.From = version.Version{}
	}
	if a.Began.IsZero() || !b.Began.IsZero() && b.Began.Before(a.Began) {
		merged.Began = b.Began
	}
	merged.Groups = slices.Concat(a.Groups, b.Groups)
	merged.Updated, merged.Machines = a.Updated+b.Updated, a.Machines+b.Machines
	return merged
}
