package status

import (
	"cmp"
	"fmt"
	"strings"

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
		if s.State == StepRunning || s.State == StepNext && s.Updated > 0 {
			all = append(all, line{subject: s.describe(), state: fmt.Sprintf("%d of %d machines", s.Updated, s.Machines), gone: "ended"})
		}
	}
	if len(c.PlanChanges) > 0 {
		changes := strings.Join(c.PlanChanges, "; ")
		all = append(all, line{subject: "Plan", state: changes, gone: "as it was made"})
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
	kind := cmp.Or(string(s.GroupKind), "Groups")
	return fmt.Sprintf("%s %s to %s", kind, text.JoinSome(s.Groups, shownGroups, ", "), s.To)
}
