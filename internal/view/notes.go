package view

import (
	"fmt"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// shownVersions bounds the list of versions in one note.
const shownVersions = 3

// selectNotes returns one note for each operation: why it is there, and for the control plane where workers remain.
func selectNotes(p plan.Plan) []string {
	at := make(map[string]version.Version, len(p.Groups))
	for _, g := range p.Groups {
		at[g.Name] = g.From
	}
	notes := make([]string, 0, len(p.Operations))
	for i, o := range p.Operations {
		if o.Kind == plan.WorkersUpgrade {
			notes = append(notes, o.Reason.Message())
			for _, name := range o.Groups {
				at[name] = o.To
			}
			continue
		}
		notes = append(notes, joinNotes(remainNote(p, at, i), controlPlaneNote(o)))
	}
	return notes
}

func joinNotes(notes ...string) string {
	var kept []string
	for _, n := range notes {
		if n != "" {
			kept = append(kept, n)
		}
	}
	return strings.Join(kept, "; ")
}

// remainNote says at which versions workers remain while the control plane is at the version that operation i goes to.
func remainNote(p plan.Plan, at map[string]version.Version, i int) string {
	moves := map[string]bool{}
	for _, o := range p.Operations[i+1:] {
		if o.Kind == plan.ControlPlaneUpgrade {
			break
		}
		for _, name := range o.Groups {
			moves[name] = true
		}
	}
	var remain []version.Version
	known := map[version.Version]bool{}
	for _, g := range p.Groups {
		if v := at[g.Name]; !moves[g.Name] && v != p.Operations[i].To && !known[v] {
			known[v] = true
			remain = append(remain, v)
		}
	}
	if len(remain) == 0 {
		return ""
	}
	remain = version.Sorted(remain)
	names := text.Some{Most: shownVersions}
	for _, v := range remain {
		names.Add(v.String())
	}
	return "workers can remain on " + names.Join(", ")
}

// controlPlaneNote is shorter than the reason's message for what every chain has, so that a row stays one line.
func controlPlaneNote(o plan.Operation) string {
	if o.Reason.Code == plan.ReasonLatestOfMinor {
		return fmt.Sprintf("newest %s on offer", o.To.Minor())
	}
	return o.Reason.Message()
}

// summary counts what a plan does.
type summary struct {
	controlPlaneUpgrades, workerStops int
	// rollouts counts each upgrade of each group; everyMinor is how many there would be if every group stopped at
	// every minor of the control plane.
	rollouts, everyMinor int
}

func computeSummary(c Chain) summary {
	s := summary{}
	stops := map[version.Version]bool{}
	for _, o := range c.Plan.Operations {
		if o.Kind == plan.ControlPlaneUpgrade {
			s.controlPlaneUpgrades++
			continue
		}
		stops[o.To] = true
		s.rollouts += len(o.Groups)
	}
	s.workerStops = len(stops)
	route := append([]version.Version{c.ControlPlane}, c.Plan.ControlPlane...)
	for _, g := range c.Plan.Groups {
		if len(g.Upgrades) > 0 {
			s.everyMinor += minorsAfter(g.From.Minor(), route)
		}
	}
	return s
}

// minorsAfter counts the minors of a route that are newer than from. A group that has something to upgrade to needs one
// rollout at least: a patch or a build.
func minorsAfter(from version.Minor, route []version.Version) int {
	count := 0
	for _, v := range route {
		if from.Before(v.Minor()) {
			count++
			from = v.Minor()
		}
	}
	return max(count, 1)
}

// describe says what a plan does, and what that saves.
func (s summary) describe() string {
	words := fmt.Sprintf("%s and %s", text.Count(s.controlPlaneUpgrades, "control plane upgrade"), text.Count(s.workerStops, "worker stop"))
	if s.rollouts == 0 && s.everyMinor == 0 {
		return words + "."
	}
	const against = "upgrading every worker at every minor"
	rollouts := text.Count(s.rollouts, "worker rollout")
	switch saved := s.everyMinor - s.rollouts; {
	case saved > 0:
		return fmt.Sprintf("%s: %s instead of %d, %d saved against %s.", words, rollouts, s.everyMinor, saved, against)
	case saved < 0:
		return fmt.Sprintf("%s: %s, %d more than %s.", words, rollouts, -saved, against)
	default:
		return fmt.Sprintf("%s: %s, as many as %s.", words, rollouts, against)
	}
}
