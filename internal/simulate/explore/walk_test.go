package explore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/simulate/search"
)

// Walk goes one random way of at most so many steps through c, checks what Explore checks, and returns the same report of the steps. It is for
// configurations that have too many states to visit all. The same seed goes the same way.
func Walk(ctx context.Context, c Config, seed uint64, steps int) (search.Report, error) {
	report, _, err := walk(ctx, c, seed, steps, false)
	if err != nil || report.Violation == nil {
		return report, err
	}
	// The same way once more, to say what happened on it.
	_, report.Violation.Trace, err = walk(ctx, c, seed, steps, true)
	return report, err
}

func walk(ctx context.Context, c Config, seed uint64, steps int, labelled bool) (report search.Report, trace []string, err error) {
	m, err := newModel(c)
	if err != nil {
		return search.Report{}, nil, err
	}
	known := search.NewKnown[world]()
	random := rand.New(rand.NewPCG(seed, seed))
	w := m.Begin()
	for report.States = range steps {
		if err := ctx.Err(); err != nil {
			return report, nil, fmt.Errorf("walking: %w", err)
		}
		if problem, trail := m.Fair(w, known, labelled); problem != "" { //nolint:contextcheck // simulated effects wait for nothing
			report.Violation = &search.Violation{Problem: problem}
			return report, append(trace, trail...), nil
		}
		ways := slices.Collect(m.Steps(w, labelled)) //nolint:contextcheck // simulated effects wait for nothing
		report.Transitions += len(ways)
		// What goes well stands first. Of two draws the smaller one counts, so that walks come far.
		taken := ways[min(random.IntN(len(ways)), random.IntN(len(ways)))]
		trace = append(trace, strings.TrimSpace(taken.Label))
		if taken.Problem != "" {
			report.Violation = &search.Violation{Problem: taken.Problem}
			return report, trace, nil
		}
		w = taken.To
	}
	return report, trace, nil
}
