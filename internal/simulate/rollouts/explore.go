package rollouts

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/simulate/search"
)

// errFull is why a Scenario cannot be explored: a world has more than the model has room for.
var errFull = errors.New("exploring a rollout: it has more Machines, or more writes in one " +
	"reconcile, than the model has room for. This is a bug in Windlass: please report it with the " +
	"command")

// explorer is a Scenario made ready, with a memory of what the controllers decide.
type explorer struct {
	Scenario
	plans    map[reading]decided
	setPlans map[setReading][]operation
	rests    map[[maxOperations]operation]uint16
	lists    [][]operation
	// labelled says that the labels of steps are wanted: making them takes time.
	labelled bool
	// err is errFull once there was no room. What was explored until then says nothing.
	err error
}

func newExplorer(s Scenario) *explorer {
	if s.Engine.Needs == nil {
		s.Engine.Needs = pool.Needs
	}
	if s.Engine.Decide == nil {
		s.Engine.Decide = pool.Decide
	}
	return &explorer{
		Scenario: s, plans: map[reading]decided{}, setPlans: map[setReading][]operation{},
		rests: map[[maxOperations]operation]uint16{},
	}
}

// Explore visits what can happen from the beginning of a scenario, at most limit states, and checks
// invariants on the way. It ends at the first violation. The error is about s, is that of ctx, or
// says that the model has no room. It is safe for concurrent use.
func Explore(ctx context.Context, s Scenario, limit int) (search.Report, error) {
	if err := s.check(); err != nil {
		return search.Report{}, err
	}
	e := newExplorer(s)
	report, err := search.Explore(ctx, e, limit)
	return report, cmp.Or(err, e.err) //nolint:wrapcheck // both are complete
}

// Steps returns all that can happen next, always in the same order.
func (e *explorer) Steps(w scene, labelled bool) iter.Seq[step] {
	e.labelled = labelled
	if e.err != nil {
		return slices.Values[[]step](nil)
	}
	return slices.Values(e.steps(&w))
}

// Fair lets everything behave from now on, once with this engine and once with stock.
func (e *explorer) Fair(
	w scene, known *search.Known[scene], labelled bool,
) (problem string, trail []string) {
	e.labelled = labelled
	for _, stock := range []bool{false, true} {
		// Stock's engine stalls in kept groups where the guard refuses what it wants: a move that was
		// reverted, surge, a pause. People end that by hand, so nothing here tells whose fault it is.
		if stock && e.Keep || e.err != nil {
			continue
		}
		calm := w
		calm.settle()
		calm.stockRan = calm.stockRan || calm.stock != stock
		calm.stock = stock
		if problem, trail = e.calmly(calm, known); problem != "" {
			return problem, trail
		}
	}
	return "", nil
}

// calmly lets everything behave until nothing changes any more. It returns what is wrong then.
func (e *explorer) calmly(w scene, known *search.Known[scene]) (problem string, trail []string) {
	tell := func(lines ...string) { trail = append(trail, lines...) }
	if w.stock {
		tell("-- from here nothing disturbs it, and stock is in charge")
	} else {
		tell("-- from here nothing disturbs it")
	}
	last := w
	problem = known.Run(w, "the rollout does not end", func(w *scene) (done bool, problem string) {
		before := *w
		labels, problem := e.calm(w)
		tell(labels...)
		last = *w
		switch {
		case problem != "" || before != *w:
			return false, problem
		case e.helped(w):
			tell("a person deletes a Machine")
			return false, ""
		case w.isHeld():
			problem = e.endsHeld(w)
			w.release()
			tell("what holds the group ends")
			return false, problem
		}
		return true, e.ends(w, !w.stock && e.deploy(w.read(), false).stated)
	})
	if problem == "" {
		return "", nil
	}
	return problem, append(trail, "then: "+last.String())
}
