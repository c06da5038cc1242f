package status

import (
	"fmt"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// shownGroups is how many groups a change names.
const shownGroups = 3

// chainLines are what people who follow an upgrade are told of when it changes. What comes is not among it: it follows from what is done.
func chainLines(c *Chain) []line {
	if c == nil {
		return nil
	}
	upgrade := line{subject: "Upgrade", state: string(c.State), message: c.Now, brief: c.Brief}
	if !c.Target.IsZero() {
		upgrade.state = fmt.Sprintf("%s, to %s: %s", c.State, c.Target, c.Now)
		upgrade.message = ""
	}
	if c.Problem != "" {
		upgrade.message = c.Problem
	}
	all := []line{upgrade}
	for _, s := range c.Steps {
		if s.State == StepRunning {
			all = append(all, line{subject: s.describe(), state: fmt.Sprintf("%d of %d machines", s.Updated, s.Machines), gone: "ended"})
		}
	}
	for _, h := range c.Holds {
		all = append(all, line{subject: fmt.Sprintf("Held by %s %s", h.Kind, h.By), state: h.Message, gone: "no longer"})
	}
	if c.Disagreement != "" {
		all = append(all, line{subject: "Note", state: c.Disagreement, gone: "the condition and the objects agree again"})
	}
	return all
}

// describe names a step in a few words.
func (s Step) describe() string {
	if s.Kind == plan.ControlPlaneUpgrade {
		return fmt.Sprintf("Control plane to %s", s.To)
	}
	return fmt.Sprintf("%s %s to %s", s.GroupKind, text.JoinSome(s.Groups, shownGroups, ", "), s.To)
}
