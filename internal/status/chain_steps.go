package status

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// steps puts the way of an upgrade together.
func (c *chainComputation) steps() []Step {
	var steps []Step
	if p := c.progress(); p != nil {
		steps = c.recordedSteps(*p)
	} else if !c.recordsSteps() && c.isUnderWay() {
		steps = c.observedSteps()
	}
	if c.controlPlaneMoves() {
		step := c.runningControlPlane()
		step.Updated, step.Machines = c.countControlPlane()
		steps = append(steps, step)
	}
	return append(steps, c.stepsLeft()...)
}

// isUnderWay reports whether there is an upgrade whose steps could have been done already.
func (c *chainComputation) isUnderWay() bool {
	cp := c.state.ControlPlane
	if !cp.Exists {
		return false
	}
	return cp.Upgrading || !cp.Version.Equal(c.state.Target) || c.state.Pending.Has(chain.AfterClusterUpgrade) ||
		slices.ContainsFunc(c.state.Groups, func(g chain.Group) bool {
			return g.Exists && !g.Deleting && (g.Upgrading || !g.Version.Equal(c.state.Target))
		})
}

// recordedSteps are the steps that are done. One in which machines are on their way is not.
func (c *chainComputation) recordedSteps(p chain.Progress) []Step {
	if len(p.Steps) == chain.MaxSteps {
		c.notKnown = append(c.notKnown, "steps before the first one shown: only the last steps are recorded")
	}
	return slices.DeleteFunc(DoneSteps(p), c.moves)
}

// moves reports whether machines are on their way in a step, whatever has followed it.
func (c *chainComputation) moves(s Step) bool {
	if s.Kind == plan.ControlPlaneUpgrade {
		return c.state.ControlPlane.Version.Equal(s.To) && c.controlPlaneMoves()
	}
	return slices.ContainsFunc(c.state.Groups, func(g chain.Group) bool {
		return (s.GroupKind == "" || g.Kind == s.GroupKind) && g.Version.Equal(s.To) && c.groupMoves(g)
	})
}

// DoneSteps are the steps that a way has, in order, without those that were taken back. The version that
// the first one came from is zero where steps before it may have been dropped.
func DoneSteps(p chain.Progress) []Step {
	var done []Step
	from := p.From
	if len(p.Steps) == chain.MaxSteps {
		from = version.Version{}
	}
	for _, s := range keptSteps(p) {
		done = append(done, Step{
			State: StepDone, Kind: plan.ControlPlaneUpgrade, From: from, To: s.To, Began: s.Began.UTC(), Ended: s.ControlPlane.UTC(),
		})
		if !s.Workers.IsZero() {
			done = append(done, Step{
				State: StepDone, Kind: plan.WorkersUpgrade, To: s.To, Began: s.ControlPlane.UTC(), Ended: s.Workers.UTC(),
			})
		}
		from = s.To
	}
	return done
}

// keptSteps are the steps of a way without those that were taken back.
func keptSteps(p chain.Progress) []chain.Step {
	var kept []chain.Step
	for i, s := range p.Steps {
		if i+1 == len(p.Steps) || !p.Steps[i+1].InsteadOf.Equal(s.To) {
			kept = append(kept, s)
		}
	}
	return kept
}

// versionChange is how topology controllers word the Event of a step: `Updated KIND "NAMESPACE/NAME" with version change from A to B`.
var versionChange = regexp.MustCompile(`^Updated (\S+) "[^"]*" with version change from (\S+) to (\S+)$`)

// observe reads what Events tell of the steps of an upgrade whose engine does not record them: when they began, not when they ended.
// Events from before the condition turned False are of earlier upgrades.
func (c *chainComputation) observe() []Step {
	if c.recordsSteps() || c.condition == nil || c.condition.Status != metav1.ConditionFalse {
		return nil
	}
	events := slices.Clone(c.facts.Upgrade.Events)
	slices.SortStableFunc(events, func(a, b corev1.Event) int {
		return cmp.Or(eventTime(a).Compare(eventTime(b)), cmp.Compare(a.Message, b.Message))
	})
	var seen []Step
	for _, e := range events {
		s, isStep := c.readEvent(e)
		if !isStep || eventTime(e).Before(c.condition.LastTransitionTime.Time) {
			continue
		}
		// Every group has an Event of its own.
		at := slices.IndexFunc(seen, func(o Step) bool { return o.Kind == s.Kind && o.To == s.To })
		if at < 0 {
			seen = append(seen, s)
			continue
		}
		seen[at] = mergeGroups(seen[at], s)
	}
	return seen
}

// observedSteps are those that Events tell of, and that are over: nothing is on its way there any more, and nothing has to go there.
func (c *chainComputation) observedSteps() []Step {
	c.notKnown = append(c.notKnown, "steps that are done and whose Events have expired: Cluster API does not record steps")
	return slices.DeleteFunc(slices.Clone(c.observed), func(s Step) bool {
		next := func(o plan.Operation) bool { return o.Kind == plan.WorkersUpgrade && o.To.Equal(s.To) }
		return c.moves(s) || s.Kind == plan.WorkersUpgrade && slices.ContainsFunc(c.next, next)
	})
}

func eventTime(e corev1.Event) time.Time {
	for _, t := range []time.Time{e.FirstTimestamp.Time, e.EventTime.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return e.LastTimestamp.Time
}

func (c *chainComputation) readEvent(e corev1.Event) (Step, bool) {
	match := versionChange.FindStringSubmatch(e.Message)
	if match == nil {
		return Step{}, false
	}
	from, errFrom := version.Parse(match[2])
	to, errTo := version.Parse(match[3])
	if errFrom != nil || errTo != nil {
		return Step{}, false
	}
	s := Step{State: StepDone, Kind: plan.ControlPlaneUpgrade, From: from, To: to, Began: eventTime(e).UTC()}
	switch kind := plan.GroupKind(match[1]); kind {
	case plan.MachineDeployment, plan.MachinePool:
		s.Kind, s.GroupKind = plan.WorkersUpgrade, kind
		return s, true
	default:
		return s, c.facts.ControlPlane != nil && match[1] == c.facts.ControlPlane.GetKind()
	}
}

// runningControlPlane says where the control plane comes from, and since when, as far as that is known.
func (c *chainComputation) runningControlPlane() Step {
	step := Step{State: StepRunning, Kind: plan.ControlPlaneUpgrade, To: c.state.ControlPlane.Version}
	if p := c.progress(); p != nil && len(p.Steps) > 0 && p.Steps[len(p.Steps)-1].To.Equal(step.To) {
		steps := keptSteps(*p)
		last := len(steps) - 1
		step.Began, step.From = steps[last].Began.UTC(), p.From
		if last > 0 {
			step.From = steps[last-1].To
		}
	}
	for _, seen := range c.observed {
		if seen.Kind == step.Kind && seen.To.Equal(step.To) {
			step.Began, step.From = seen.Began, seen.From
		}
	}
	return step
}

// workersBegan is when the workers' step that a group is on began, which may be before the group's turn.
func (c *chainComputation) workersBegan(g chain.Group) time.Time {
	if p := c.progress(); p != nil && len(p.Steps) > 0 && p.Steps[len(p.Steps)-1].To.Equal(g.Version) {
		return p.Steps[len(p.Steps)-1].ControlPlane.UTC()
	}
	for _, seen := range c.observed {
		if seen.Kind == plan.WorkersUpgrade && seen.To.Equal(g.Version) {
			return seen.Began
		}
	}
	return time.Time{}
}
