package status

import (
	"fmt"
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// planChanges says how the steps differ from those that were planned when the target was recorded. The
// number of steps changes with them.
func (c *chainComputation) planChanges(steps []Step) (made time.Time, changes []string) {
	p := c.progress()
	if p == nil || p.Planned == nil {
		return time.Time{}, nil
	}
	made = p.Planned.Made.UTC()
	return made, slices.Concat(
		c.planChange(steps, plan.ControlPlaneUpgrade, p.Planned.ControlPlane, made),
		c.planChange(steps, plan.WorkersUpgrade, p.Planned.Workers, made),
	)
}

// planChange compares the stops of one kind. Steps that ended before the plan was made are no part of it.
func (c *chainComputation) planChange(
	steps []Step, kind plan.OperationKind, planned []version.Version, made time.Time,
) []string {
	who := map[plan.OperationKind]string{
		plan.ControlPlaneUpgrade: "the control plane", plan.WorkersUpgrade: "workers",
	}[kind]
	var changes []string
	for _, s := range steps {
		old := s.State == StepDone && !s.Ended.After(made)
		if s.Kind != kind || old || slices.ContainsFunc(planned, s.To.Equal) {
			continue
		}
		change := fmt.Sprintf("%s: stop at %s, which was not planned", who, s.To)
		if len(s.Groups) > 0 {
			change += " (" + text.JoinSome(s.Groups, shownGroups, ", ") + ")"
		}
		at := slices.IndexFunc(c.next, func(o plan.Operation) bool { return o.Kind == kind && o.To.Equal(s.To) })
		if at >= 0 {
			change += ": " + c.next[at].Reason.Message()
		}
		changes = append(changes, change)
	}
	for _, to := range planned {
		if !slices.ContainsFunc(steps, func(s Step) bool { return s.Kind == kind && s.To.Equal(to) }) {
			changes = append(changes, fmt.Sprintf("%s: no stop at %s, which was planned: %s", who, to, c.droppedBy()))
		}
	}
	return changes
}

// droppedBy says why a stop that was planned is none any more.
func (c *chainComputation) droppedBy() string {
	if planned := c.progress().Target; !planned.Equal(c.state.Target) {
		return fmt.Sprintf("the target was changed from %s to %s", planned, c.state.Target)
	}
	return "the versions on offer, the groups or their policies have changed since"
}
