package explore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/version"
)

// World is one way through a Config, taken step by step.
type World struct {
	m *model
	w world
}

// New returns the world that c begins with.
func New(c Config) (*World, error) {
	m, err := newModel(c)
	if err != nil {
		return nil, err
	}
	m.labelled = true
	return &World{m: m, w: m.Begin()}, nil
}

// Options returns what can happen, in the words that Do takes.
func (w *World) Options() []string {
	var options []string
	for next := range w.m.steps(w.w) {
		options = append(options, next.Label)
	}
	return options
}

// Do lets the first thing happen whose words contain what. The error is that there is none, or that an invariant is violated.
func (w *World) Do(what string) (happened string, err error) {
	for next := range w.m.steps(w.w) {
		if !strings.Contains(next.Label, what) {
			continue
		}
		w.w = next.To
		if next.Problem != "" {
			err = fmt.Errorf("%s: %s", next.Label, next.Problem)
		}
		return next.Label, err
	}
	return "", fmt.Errorf("%q cannot happen; what can is: %s", what, strings.Join(w.Options(), " | "))
}

// String says where the objects are and what is recorded.
func (w *World) String() string {
	at := func(to, from rung) string {
		if to == from {
			return w.m.version(to).String()
		}
		return w.m.version(from).String() + "→" + w.m.version(to).String()
	}
	parts := []string{"control plane " + at(w.w.cp.spec, w.w.cp.status)}
	if !w.w.cp.exists {
		parts = []string{"no control plane"}
	}
	for i, c := range w.m.Groups {
		switch g := w.w.groups[i]; {
		case g.leaving():
			parts = append(parts, c.Name+" "+at(g.version, g.oldest)+" leaves")
		case !g.inTopology:
		case !g.exists:
			parts = append(parts, c.Name+" -")
		case g.deleting:
			parts = append(parts, c.Name+" goes")
		default:
			parts = append(parts, c.Name+" "+at(g.version, g.oldest))
		}
	}
	if w.w.pending != 0 {
		parts = append(parts, fmt.Sprint("pending ", w.w.pending.pending()))
	}
	if w.w.intent.to != 0 {
		parts = append(parts, "intent "+w.m.version(w.w.intent.to).String())
	}
	if w.w.stock {
		parts = append(parts, "Cluster API's engine")
	}
	return strings.Join(parts, ", ")
}

// Course is what happens when nothing disturbs it.
type Course struct {
	// ControlPlane and Groups are the versions that were gone to; Groups by name.
	ControlPlane []version.Version
	Groups       map[string][]version.Version
	// Lines say what happened, action by action.
	Lines []string
	// Reason is that of the last decision.
	Reason chain.Reason
}

// actions bounds how many a Course has: many times what the longest chain needs.
const actions = 100_000

// Finish lets the world behave until nothing happens any more. The error is a violation.
func (w *World) Finish() (Course, error) {
	course := Course{Groups: map[string][]version.Version{}}
	w.w.behave()
	for range actions {
		w.m.settle(&w.w)
		before := w.w
		r := w.m.behaved(&w.w)
		course.Reason = r.reason
		course.Lines = append(course.Lines, strings.Join(r.said, "; "))
		course.note(w.m, &before, &w.w)
		if r.violation != "" {
			return course, fmt.Errorf("%s: %s", strings.Join(r.said, "; "), r.violation)
		}
		if before == w.w {
			if problem := w.m.ends(&w.w, r.reason); problem != "" {
				return course, fmt.Errorf("%s: %s", strings.Join(r.said, "; "), problem)
			}
			return course, nil
		}
	}
	return course, fmt.Errorf("no end after %d actions: %s", actions, strings.Join(course.Lines[actions-1:], "; "))
}

func (c *Course) note(m *model, before, after *world) {
	if before.cp.spec != after.cp.spec {
		c.ControlPlane = append(c.ControlPlane, m.version(after.cp.spec))
	}
	for i, g := range m.Groups {
		if b, a := before.groups[i], after.groups[i]; b.exists && a.exists && a.version != b.version {
			c.Groups[g.Name] = append(slices.Clip(c.Groups[g.Name]), m.version(a.version))
		}
	}
}
