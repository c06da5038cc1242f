package explore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/simulate/search"
)

// step is one thing that can happen in a world.
type step = search.Step[world]

// Explore visits what can happen from the beginning of c, at most limit states, and checks invariants on the way. It ends at the first violation.
// The error is about c, or ctx's.
func Explore(ctx context.Context, c Config, limit int) (search.Report, error) {
	m, err := newModel(c)
	if err != nil {
		return search.Report{}, err
	}
	return search.Explore(ctx, m, limit) //nolint:wrapcheck // it is ctx's
}

// Steps are all that can happen in w, always in the same order.
func (m *model) Steps(w world, labelled bool) iter.Seq[step] {
	return func(yield func(step) bool) {
		m.labelled = labelled
		m.steps(w)(yield)
	}
}

// steps are all that can happen in w, always in the same order.
func (m *model) steps(w world) iter.Seq[step] {
	return func(yield func(step) bool) {
		for r := range m.outcomes(w, w, false) {
			if !yield(r.step("")) {
				return
			}
		}
		events := m.events(&w)
		for _, event := range events {
			if !yield(step{To: event.to, Label: event.label}) {
				return
			}
		}
		for _, event := range events {
			if !w.races(event) {
				continue
			}
			spend(&event.to.faults.Races)
			for r := range m.outcomes(w, event.to, event.cluster) {
				if !yield(r.step("meanwhile " + event.label + ": ")) {
					return
				}
			}
		}
	}
}

// races reports whether an event can happen between what the engine reads and what it does.
func (w *world) races(e event) bool {
	return w.faults.Races > 0 && !w.stock && !e.to.stock && e.label != passes && e.label != ages
}

// step is what the run comes to.
func (r *run) step(prefix string) step {
	return step{To: *r.w, Problem: r.violation, Label: prefix + strings.Join(r.said, "; ")}
}

// Fair lets the world behave from now on, and says what keeps the upgrade from its end.
func (m *model) Fair(w world, known *search.Known[world], labelled bool) (problem string, trail []string) {
	m.labelled = labelled
	trail = []string{"-- from here nothing disturbs it"}
	w.behave()
	m.repair(&w)
	m.settle(&w)
	problem = known.Run(w, "from here the upgrade does not end though nothing disturbs it", func(w *world) (done bool, problem string) {
		before := *w
		r := m.behaved(w)
		if labelled {
			trail = append(trail, strings.Join(r.said, "; "))
		}
		if r.violation != "" {
			return false, "while nothing disturbs it: " + r.violation
		}
		if before == *w {
			return true, m.ends(w, r.reason)
		}
		m.settle(w)
		return false, ""
	})
	return problem, trail
}

// repair lets people leave out versions that are broken: the last of the sources lists none, and the
// first of Retargets is not one, and reached without.
func (m *model) repair(w *world) {
	if len(m.Broken) == 0 {
		return
	}
	w.source = uint8(len(m.Sources) - 1) //nolint:gosec // a handful
	if stuck := len(m.Sources) == 1 && m.broken(w.cp.spec); m.broken(w.target) || stuck {
		w.faults.Retargets = 1
		w.retarget(m.rung(m.Retargets[0]))
		w.faults.Retargets = 0
	}
	w.replan()
}

// behaved lets the engine act once with the best outcome.
func (m *model) behaved(w *world) *run {
	r := &run{model: m, w: w, asRead: *w}
	state, recorded := m.read(&r.asRead)
	m.carry(r, state, recorded, m.Engine.Decide(state, epoch))
	return r
}

// ends says what is wrong with a world in which nothing happens any more.
func (m *model) ends(w *world, reason chain.Reason) string {
	switch {
	case w.deleting && w.okToDelete:
		return ""
	case (reason == chain.NoPath || m.Asked && reason == chain.NoSource) && (m.MayEndWithoutPath || m.older(w.target, w.cp.spec)):
		return ""
	case reason != chain.UpToDate:
		return fmt.Sprintf("the upgrade is stuck for the reason %s", reason)
	}
	return cmp.Or(m.endsUnfinished(w), m.endsOwing(w))
}

// endsUnfinished says which object is not at the target.
func (m *model) endsUnfinished(w *world) string {
	if w.cp.spec != w.target {
		return m.format("the upgrade has ended, and the control plane is at %v", w.cp.spec)
	}
	for i, c := range m.Groups {
		g := w.groups[i]
		if g.leaving() {
			return fmt.Sprintf("the upgrade has ended, and %s is still there", c.Name)
		}
		if g.inTopology && (!g.exists || g.version != w.target || g.oldest != w.target) {
			return m.format("the upgrade has ended, and %v is at %v", c.Name, g.version)
		}
	}
	return ""
}

// endsOwing says what is left on the Cluster, or has been lost.
func (m *model) endsOwing(w *world) string {
	if w.pending != 0 || w.intent.to != 0 || w.chainTarget != 0 || w.upgradeStep != 0 {
		return m.format("the upgrade has ended, and something is left on the Cluster: %v, intent %v, target %v, step %v",
			w.pending.pending(), w.intent.to, w.chainTarget, w.upgradeStep)
	}
	l := &w.ledger
	owed := slices.ContainsFunc([]phase{l.initialize, l.controlPlane, l.workersBefore, l.workersAfter}, phase.open)
	if !l.forgiven && (owed || l.began || l.moved) {
		return fmt.Sprintf("the upgrade has ended, and hooks have been lost: %+v", *l)
	}
	return ""
}
