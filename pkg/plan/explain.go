package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Topic is what a line of an Explanation is about.
type Topic string

const (
	// TopicStep says why an operation is there.
	TopicStep Topic = "Step"
	// TopicSkipped says why workers may stay where they are while the control plane has moved.
	TopicSkipped Topic = "Skipped"
	// TopicObstacle is the first thing that keeps a plan from existing.
	TopicObstacle Topic = "Obstacle"
	// TopicFix is what would remove the obstacle. Its value is part of the JSON form and stays.
	TopicFix Topic = "Fix"
)

// ExplanationLine is one sentence, without a full stop.
type ExplanationLine struct {
	Topic Topic  `json:"topic"`
	Text  string `json:"text"`
}

// Explanation says why a plan is as it is, in the order of its operations, or why there is none.
type Explanation struct {
	Lines []ExplanationLine
}

// Explain explains what Compute returns for the same request: for each operation why it is there; for each stop that
// workers skip why that is safe; and where no plan exists, the first obstacle and what would remove it.
func Explain(r Request) Explanation {
	var e Explanation
	c, err := compute(r)
	if err != nil {
		return explainError(err)
	}
	operations, err := c.operations()
	if err != nil {
		return explainError(err)
	}
	skipped := c.skips(operations)
	for position, to := range c.route.versions {
		for _, o := range operations {
			if o.To == to {
				e.add(TopicStep, "%s: %s", describeOperation(o), o.Reason.Message())
			}
		}
		for _, text := range skipped[position] {
			e.add(TopicSkipped, "%s", text)
		}
	}
	if len(operations) == 0 {
		e.add(TopicStep, "nothing to do: the control plane and all workers are at the target %s", c.request.Target)
	}
	return e
}

func explainError(err error) Explanation {
	var e Explanation
	var known *Error
	if !errors.As(err, &known) {
		e.add(TopicObstacle, "%v", err)
		return e
	}
	subject := string(known.Item)
	if !known.Version.IsZero() {
		subject += " " + known.Version.String()
	}
	e.add(TopicObstacle, "%s: %s", subject, known.Problem)
	e.add(TopicFix, "%s", known.Fix)
	return e
}

func (e *Explanation) add(topic Topic, format string, args ...any) {
	e.Lines = append(e.Lines, ExplanationLine{Topic: topic, Text: fmt.Sprintf(format, args...)})
}

func describeOperation(o Operation) string {
	if o.Kind == ControlPlaneUpgrade {
		return fmt.Sprintf("control plane %s -> %s", o.From, o.To)
	}
	return fmt.Sprintf("%s %s -> %s", describeWorkers(o.Groups), o.From, o.To)
}

// describeWorkers names groups; one that is called just "workers" needs no further word.
func describeWorkers(groups []string) string {
	if slices.Equal(groups, []string{"workers"}) {
		return groups[0]
	}
	return "workers " + strings.Join(shorten(groups), ", ")
}

// shorten keeps lists of groups readable.
func shorten(groups []string) []string {
	const most = 5
	if len(groups) <= most {
		return groups
	}
	return append(append([]string(nil), groups[:most]...), fmt.Sprintf("and %d more", len(groups)-most))
}

// skips returns, for each position, one sentence for each version that workers stay at there.
func (c *computation) skips(operations []Operation) map[int][]string {
	at := make(map[string]version.Version, len(c.fleet.groups))
	for _, g := range c.fleet.groups {
		at[g.Name] = g.Version
	}
	skips := map[int][]string{}
	for position, controlPlane := range c.route.versions {
		for _, o := range operations {
			if o.To == controlPlane {
				for _, name := range o.Groups {
					at[name] = o.To
				}
			}
		}
		skips[position] = c.stays(position, at)
	}
	return skips
}

// stays says of the groups that are below a position why that is safe, those in the same situation together.
func (c *computation) stays(position int, at map[string]version.Version) []string {
	type situation struct {
		at    version.Version
		limit uint32
	}
	names, order := map[situation][]string{}, []situation{}
	for _, g := range c.fleet.groups {
		s := situation{at: at[g.Name], limit: g.MaxMinorStep}
		if !c.route.ahead(position, s.at) {
			continue
		}
		if names[s] == nil {
			order = append(order, s)
		}
		names[s] = append(names[s], g.Name)
	}
	texts := make([]string, 0, len(order))
	controlPlane := c.route.versions[position]
	for _, s := range order {
		lag, _ := s.at.Minor().Lag(controlPlane.Minor())
		text := fmt.Sprintf("%s stay at %s while the control plane is at %s: they lag %s, and kubelet may lag %s",
			describeWorkers(names[s]), s.at, controlPlane, minors(lag), minors(c.request.Policy.Skew.MaxLag(s.at.Minor(), controlPlane.Minor())))
		if s.limit > 0 {
			text += fmt.Sprintf("; they can move %s at a time in place", minors(s.limit))
		}
		texts = append(texts, text)
	}
	return texts
}
