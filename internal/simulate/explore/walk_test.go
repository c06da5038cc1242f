package explore

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
)

// Walk goes one random way of at most so many steps through c, checks what Explore checks, and returns the same report of the steps. It is for
// configurations that have too many states to visit all. The same seed goes the same way.
func Walk(ctx context.Context, c Config, seed uint64, steps int) (Report, error) {
	report, _, err := walk(ctx, c, seed, steps, false)
	if err != nil || report.Violation == nil {
		return report, err
	}
	// The same way once more, to say what happened on it.
	_, report.Violation.Trace, err = walk(ctx, c, seed, steps, true)
	return report, err
}

func walk(ctx context.Context, c Config, seed uint64, steps int, labelled bool) (report Report, trace []string, err error) {
	m, err := newModel(c)
	if err != nil {
		return Report{}, nil, err
	}
	e := &explorer{model: m, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, good: map[key]struct{}{}}
	m.labelled = labelled
	random := rand.New(rand.NewPCG(seed, seed))
	w := m.start()
	for report.States = range steps {
		if err := ctx.Err(); err != nil {
			return report, nil, fmt.Errorf("walking: %w", err)
		}
		if problem, trail := e.fair(w); problem != "" { //nolint:contextcheck // simulated effects wait for nothing
			report.Violation = &Violation{Problem: problem}
			return report, append(trace, trail...), nil
		}
		m.labelled = labelled
		ways := slices.Collect(m.steps(w)) //nolint:contextcheck // simulated effects wait for nothing
		report.Transitions += len(ways)
		// What goes well stands first. Of two draws the smaller one counts, so that walks come far.
		taken := ways[min(random.IntN(len(ways)), random.IntN(len(ways)))]
		trace = append(trace, strings.TrimSpace(taken.label))
		if taken.problem != "" {
			report.Violation = &Violation{Problem: taken.problem}
			return report, trace, nil
		}
		w = taken.to
	}
	return report, trace, nil
}

func (v *Violation) String() string {
	return strings.Join(v.Trace, "\n") + "\nVIOLATION: " + v.Problem
}
