// Package search visits all that can happen in a world, breadth first. A Model has the world; the
// packages explore and rollouts have one each.
//
// It keeps only a key of each visited world, and the step that led there. A trace takes the same
// steps again.
package search

import (
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
)

// Report says what an exploration has found.
type Report struct {
	// States and Transitions are how many were visited. Complete says that there are no others:
	// neither the limit nor a violation ended the exploration.
	States, Transitions int
	Complete            bool
	// Violation is the first that was found, nil if none was.
	Violation *Violation
}

// Violation is an invariant that does not hold, and a shortest way there.
type Violation struct {
	Problem string
	// Trace are the steps from the beginning; the last one breaks the invariant.
	Trace []string
}

// String returns the trace and the problem, a line each; nothing for nil.
func (v *Violation) String() string {
	if v == nil {
		return ""
	}
	return strings.Join(v.Trace, "\n") + "\nVIOLATION: " + v.Problem
}

// Step is one thing that can happen in a world.
type Step[W any] struct {
	To W
	// Problem says which invariant the step breaks; empty for none.
	Problem, Label string
}

// Model is what is explored. A world is a value, and two worlds that are == are the same. A world
// has fewer than 65,536 steps.
type Model[W comparable] interface {
	Begin() W
	// Steps returns all that can happen in a world, always in the same order. Labels are needed only
	// if labelled.
	Steps(w W, labelled bool) iter.Seq[Step[W]]
	// Fair lets a world behave from now on. It returns what keeps it from its end, and if labelled,
	// the steps on the way there.
	Fair(w W, known *Known[W], labelled bool) (problem string, trail []string)
}

// keys make a key of a world: 128 bits of a hash, so that two worlds do not have the same one.
type (
	keys [2]maphash.Seed
	key  [2]uint64
)

func newKeys() keys { return keys{maphash.MakeSeed(), maphash.MakeSeed()} }

func keyOf[W comparable](k keys, w *W) key {
	return key{maphash.Comparable(k[0], *w), maphash.Comparable(k[1], *w)}
}

// Known has the worlds from which a run without disturbances ends well. It is not safe for
// concurrent use.
type Known[W comparable] struct {
	keys keys
	good map[key]struct{}
}

// NewKnown returns a Known without worlds.
func NewKnown[W comparable]() *Known[W] {
	return &Known[W]{keys: newKeys(), good: map[key]struct{}{}}
}

// Run changes w by next until next returns done or a problem, or w is known to end well. It returns
// endless if w repeats.
func (k *Known[W]) Run(w W, endless string, next func(*W) (done bool, problem string)) string {
	var path []key
	for done := false; !done; {
		at := keyOf(k.keys, &w)
		if _, known := k.good[at]; known {
			break
		}
		if slices.Contains(path, at) {
			return endless
		}
		path = append(path, at)
		var problem string
		if done, problem = next(&w); problem != "" {
			return problem
		}
	}
	for _, at := range path {
		k.good[at] = struct{}{}
	}
	return ""
}

// search is an exploration in progress.
type search[W comparable] struct {
	Model[W]
	keys  keys
	limit int
	index map[key]struct{}
	queue []W
	// from and way say how each world was reached: from which one, and by which of its steps.
	from []int32
	way  []uint16
	// full says that there was no room for a world.
	full   bool
	report Report
}

// Explore visits what can happen in a model, at most limit states, which must be at most
// math.MaxInt32. It ends at the first violation. The error is that of ctx.
func Explore[W comparable](ctx context.Context, m Model[W], limit int) (Report, error) {
	s := &search[W]{Model: m, keys: newKeys(), limit: limit, index: map[key]struct{}{}}
	s.full = !s.visit(m.Begin(), -1, 0)
	err := s.explore(ctx)
	return s.report, err
}

// visit adds a world if it is new. It reports whether there is room for it.
func (s *search[W]) visit(w W, from, way int) bool {
	at := keyOf(s.keys, &w)
	if _, visited := s.index[at]; visited {
		return true
	}
	if len(s.from) >= s.limit {
		return false
	}
	s.index[at] = struct{}{}
	s.queue = append(s.queue, w)
	s.from = append(s.from, int32(from)) //nolint:gosec // limit bounds it
	s.way = append(s.way, uint16(way))   //nolint:gosec // a world has few steps
	return true
}

func (s *search[W]) explore(ctx context.Context) error {
	const chunk = 1 << 12
	known := NewKnown[W]()
	for at := 0; len(s.queue) > 0; at++ {
		if at%chunk == 0 {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("exploring: %w", err)
			}
			s.queue = slices.Clone(s.queue) // This frees the worlds that were visited.
		}
		w := s.queue[0]
		s.queue = s.queue[1:]
		s.report.States = at + 1
		if problem, _ := s.Fair(w, known, false); problem != "" {
			_, trail := s.Fair(w, NewKnown[W](), true)
			s.report.Violation = &Violation{Problem: problem, Trace: append(s.trace(at), trail...)}
			return nil
		}
		if !s.follow(w, at) {
			return nil
		}
	}
	s.report.Complete = !s.full
	return nil
}

// follow visits what can happen next. It returns false at a violation.
func (s *search[W]) follow(w W, at int) bool {
	way := 0
	for next := range s.Steps(w, false) {
		s.report.Transitions++
		if next.Problem != "" {
			trace := append(s.trace(at), s.nth(w, way).Label)
			s.report.Violation = &Violation{Problem: next.Problem, Trace: trace}
			return false
		}
		s.full = !s.visit(next.To, at, way) || s.full
		way++
	}
	return true
}

// nth returns one step of w, with its label.
func (s *search[W]) nth(w W, n int) Step[W] {
	for next := range s.Steps(w, true) {
		if n == 0 {
			return next
		}
		n--
	}
	return Step[W]{}
}

// trace returns how a world was reached, by taking the same steps again.
func (s *search[W]) trace(at int) []string {
	var ways []uint16
	for ; s.from[at] >= 0; at = int(s.from[at]) {
		ways = append(ways, s.way[at])
	}
	w := s.Begin()
	lines := make([]string, 0, len(ways)+1)
	for _, way := range slices.Backward(ways) {
		taken := s.nth(w, int(way))
		lines = append(lines, taken.Label)
		w = taken.To
	}
	return lines
}
