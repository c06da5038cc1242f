package explore

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/chain"
)

// Report says what an exploration has found.
type Report struct {
	// States and Transitions are how many were visited. Complete says that there are no others.
	States, Transitions int
	Complete            bool
	// Depth is the number of steps to the farthest state.
	Depth int
	// Violation is the first that was found, nil if none was.
	Violation *Violation
}

// Violation is an invariant that does not hold, and a shortest way there.
type Violation struct {
	Problem string
	// Trace are the steps from the beginning; the last is the one that breaks the invariant.
	Trace []string
}

// key stands for a world: 128 bits of a hash, so that two worlds have the same with a probability that counts for nothing.
type key [2]uint64

// explorer visits worlds breadth first. Of a world that was visited only its key is kept, and how it was come to.
type explorer struct {
	*model
	ctx   context.Context //nolint:containedctx // lives as long as one call of Explore
	seeds [2]maphash.Seed
	limit int

	index map[key]struct{}
	// good are the keys of worlds from which a run without disturbances ends well.
	good  map[key]struct{}
	queue []world
	// from and way say how each world was come to: from which, and by which of its steps.
	from   []int32
	way    []uint16
	depth  []uint16
	report Report
}

// Explore visits what can happen from the beginning of c, at most limit states, and checks invariants on the way. It ends at the first violation.
// The error is about c, or ctx's.
func Explore(ctx context.Context, c Config, limit int) (Report, error) {
	m, err := newModel(c)
	if err != nil {
		return Report{}, err
	}
	e := &explorer{
		model: m, ctx: ctx, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, limit: limit,
		index: map[key]struct{}{}, good: map[key]struct{}{},
	}
	e.visit(m.start(), -1, 0)
	err = e.explore() //nolint:contextcheck // simulated effects wait for nothing
	return e.report, err
}

func (e *explorer) key(w *world) key {
	return key{maphash.Comparable(e.seeds[0], *w), maphash.Comparable(e.seeds[1], *w)}
}

// visit adds a world if it is new. It reports whether there is room for it.
func (e *explorer) visit(w world, from int, way int) bool {
	k := e.key(&w)
	if _, known := e.index[k]; known {
		return true
	}
	if len(e.from) >= e.limit {
		return false
	}
	e.index[k] = struct{}{}
	depth := uint16(0)
	if from >= 0 {
		depth = e.depth[from] + 1
	}
	e.queue = append(e.queue, w)
	e.from, e.way, e.depth = append(e.from, int32(from)), append(e.way, uint16(way)), append(e.depth, depth) //nolint:gosec // limit bounds both
	return true
}

func (e *explorer) explore() error {
	const chunk = 1 << 12
	e.report.Complete = true
	for at := 0; len(e.queue) > 0; at++ {
		if at%chunk == 0 {
			if err := e.ctx.Err(); err != nil {
				return fmt.Errorf("exploring: %w", err)
			}
			e.queue = slices.Clone(e.queue)
		}
		w := e.queue[0]
		e.queue = e.queue[1:]
		e.report.States, e.report.Depth = at+1, int(e.depth[at])
		if problem, trail := e.fair(w); problem != "" {
			e.report.Violation = &Violation{Problem: problem, Trace: append(e.trace(at), trail...)}
			return nil
		}
		way := 0
		for next := range e.steps(w) {
			e.report.Transitions++
			if next.problem != "" {
				e.report.Violation = &Violation{Problem: next.problem, Trace: append(e.trace(at), e.nth(w, way).label)}
				return nil
			}
			e.report.Complete = e.visit(next.to, at, way) && e.report.Complete
			way++
		}
	}
	return nil
}

// step is one thing that can happen in a world.
type step struct {
	to world
	// problem says which invariants it violates.
	problem, label string
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
			if !yield(step{to: event.to, label: event.label}) {
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
	return step{to: *r.w, problem: r.violation, label: prefix + strings.Join(r.said, "; ")}
}

// nth is one step of w, with its label.
func (m *model) nth(w world, n int) step {
	m.labelled = true
	defer func() { m.labelled = false }()
	for s := range m.steps(w) {
		if n == 0 {
			return s
		}
		n--
	}
	return step{}
}

// trace says how a world was come to, by taking the same steps again.
func (e *explorer) trace(at int) []string {
	var ways []uint16
	for ; e.from[at] >= 0; at = int(e.from[at]) {
		ways = append(ways, e.way[at])
	}
	w := e.start()
	lines := make([]string, 0, len(ways)+1)
	for _, way := range slices.Backward(ways) {
		taken := e.nth(w, int(way))
		lines = append(lines, taken.label)
		w = taken.to
	}
	return lines
}

// fair lets the world behave from now on, and says what keeps the upgrade from its end.
func (e *explorer) fair(w world) (problem string, trail []string) {
	w.behave()
	first := w
	var path []key
	for {
		w.settle()
		k := e.key(&w)
		if _, known := e.good[k]; known {
			break
		}
		if slices.Contains(path, k) {
			return "from here the upgrade does not end though nothing disturbs it", e.fairTrail(first, len(path))
		}
		path = append(path, k)
		before := w
		r := e.behaved(&w)
		if r.violation != "" {
			return "while nothing disturbs it: " + r.violation, e.fairTrail(first, len(path))
		}
		if before == w {
			if problem := e.ends(&w, r.reason); problem != "" {
				return problem, e.fairTrail(first, len(path))
			}
			break
		}
	}
	for _, k := range path {
		e.good[k] = struct{}{}
	}
	return "", nil
}

// behaved lets the engine act once with the best outcome.
func (m *model) behaved(w *world) *run {
	r := &run{model: m, w: w, asRead: *w}
	state, recorded := m.read(&r.asRead)
	m.carry(r, state, recorded, m.Engine.Decide(state, epoch))
	return r
}

// fairTrail says what happens in a run without disturbances.
func (e *explorer) fairTrail(w world, most int) []string {
	e.labelled = true
	defer func() { e.labelled = false }()
	lines := []string{"-- from here nothing disturbs it"}
	for range most {
		w.settle()
		lines = append(lines, strings.Join(e.behaved(&w).said, "; "))
	}
	return lines
}

// ends says what is wrong with a world in which nothing happens any more.
func (m *model) ends(w *world, reason chain.Reason) string {
	switch {
	case w.deleting && w.okToDelete:
		return ""
	case reason == chain.NoPath && (m.MayEndWithoutPath || m.older(w.target, w.cp.spec)):
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
