package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/windlass-dev/windlass/internal/simulate/fleet"
)

// Bounds of a report.
const (
	maxPoints  = 400
	maxRows    = 60
	maxReasons = 5
)

// Simulate is one run. It must be safe for concurrent use, and the same arguments must give the same run.
type Simulate func(context.Context, fleet.Config, uint64) (fleet.Run, error)

// Request is what is asked.
type Request struct {
	Config fleet.Config
	// Runs is how many runs each variant gets, at least 1. The first has Seed, the next the number after it, and so on: the same for every
	// variant, so that all of them meet the same machines.
	Runs int
	Seed uint64
	// Variants are compared; none is the configuration as it is.
	Variants []Variant
	// Parallel is how many runs go on at once; below 1 it counts as 1.
	Parallel int
	// Simulate is fleet.Simulate where it is nil.
	Simulate Simulate
	// Assumptions are passed on to the report.
	Assumptions []string
	// Progress, where it is set, is told how many of all runs are done: never by two goroutines at once.
	Progress func(done, total int)
}

// Compute simulates every variant. An error is that of a request that makes no sense, of a run, or of the context.
func Compute(ctx context.Context, r Request) (Report, error) {
	if r.Simulate == nil {
		r.Simulate = fleet.Simulate
	}
	if len(r.Variants) == 0 {
		r.Variants = []Variant{asConfigured()}
	}
	if err := checkRequest(r); err != nil {
		return Report{}, err
	}
	c := newComparison(r)
	if err := c.runAll(ctx); err != nil {
		return Report{}, err
	}
	report := Report{
		Inputs:      describeInputs(r),
		Assumptions: append([]string{}, r.Assumptions...),
		Variants:    make([]Result, 0, len(r.Variants)),
	}
	for i, v := range r.Variants {
		report.Variants = append(report.Variants, computeResult(v, c.runs[i], c.medians[i]))
	}
	report.Versions = collectVersions(c.orders)
	return report, nil
}

func checkRequest(r Request) error {
	if r.Runs < 1 {
		return fmt.Errorf("%d runs: at least 1 is needed", r.Runs)
	}
	if r.Seed > math.MaxUint64-uint64(r.Runs) {
		return fmt.Errorf("seed %d leaves no room for %d runs: choose a smaller one", r.Seed, r.Runs)
	}
	names := make(map[string]bool, len(r.Variants))
	for _, v := range r.Variants {
		if names[v.Name] {
			return fmt.Errorf("two variants are named %q: give them different names", v.Name)
		}
		names[v.Name] = true
	}
	return nil
}

// summary is what is kept of a run.
type summary struct {
	fleet.Run
	// failed and gaveUp are those of all groups.
	failed, gaveUp int
}

// summarise drops what grows with the fleet.
func summarise(run fleet.Run) summary {
	s := summary{Run: run}
	for _, g := range run.Groups {
		s.failed += g.Failed
		s.gaveUp += g.GaveUp
	}
	if s.Why == "" && s.Violation != nil {
		s.Why = s.Violation.Problem
	}
	s.Clusters, s.Groups, s.Path, s.Detail = nil, nil, nil, nil
	return s
}

// comparison is what runs of all variants write into, each at a place of its own.
type comparison struct {
	request Request
	configs []fleet.Config
	runs    [][]summary
	medians []Median
	orders  []versions

	mu          sync.Mutex
	done, total int
}

func newComparison(r Request) *comparison {
	n := len(r.Variants)
	c := &comparison{request: r, configs: make([]fleet.Config, n), runs: make([][]summary, n), medians: make([]Median, n), orders: make([]versions, n)}
	for i, v := range r.Variants {
		c.configs[i] = v.Change(r.Config)
		c.configs[i].Detail = false
		c.runs[i] = make([]summary, r.Runs)
	}
	c.total = n
	if r.Runs > 1 {
		c.total += n * r.Runs
	}
	return c
}

// runAll fills runs and medians. The median run is simulated a second time, with what charts are drawn from: so there is only ever one such detail for each
// goroutine, however many runs there are. A single run is its own median.
func (c *comparison) runAll(ctx context.Context) error {
	if c.request.Runs > 1 {
		err := c.each(ctx, len(c.configs)*c.request.Runs, func(ctx context.Context, i int) error {
			variant, run := i/c.request.Runs, i%c.request.Runs
			got, err := c.simulate(ctx, variant, run, false)
			c.runs[variant][run] = summarise(got)
			return err
		})
		if err != nil {
			return err
		}
	}
	return c.each(ctx, len(c.configs), c.runMedian)
}

func (c *comparison) runMedian(ctx context.Context, variant int) error {
	at := selectMedian(c.runs[variant])
	got, err := c.simulate(ctx, variant, at, true)
	if err != nil {
		return err
	}
	if first := c.runs[variant][at]; c.request.Runs > 1 && (first.Outcome != got.Outcome || first.Duration != got.Duration) {
		return fmt.Errorf("seed %d of %q ended with %s after %s, and the second time with %s after %s. Fix: report this as a bug; runs with one seed must be equal",
			got.Seed, c.request.Variants[variant].Name, first.Outcome, first.Duration, got.Outcome, got.Duration)
	}
	c.runs[variant][at] = summarise(got)
	c.medians[variant], c.orders[variant] = computeMedian(c.configs[variant], got)
	return nil
}

func (c *comparison) simulate(ctx context.Context, variant, run int, detail bool) (fleet.Run, error) {
	config, seed := c.configs[variant], c.request.Seed+uint64(run) //nolint:gosec // A run is a place in a list.
	config.Detail = detail
	got, err := c.request.Simulate(ctx, config, seed)
	if err != nil {
		return fleet.Run{}, fmt.Errorf("simulating %q with seed %d: %w", c.request.Variants[variant].Name, seed, err)
	}
	got.Seed = seed
	c.tell()
	return got, nil
}

func (c *comparison) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	if c.request.Progress != nil {
		c.request.Progress(c.done, c.total)
	}
}

// each calls do with every number below n, several at once, until one fails. Of several errors it is that of the lowest number which says more than that
// the others were stopped.
func (c *comparison) each(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(max(c.request.Parallel, 1))
	failed := make([]error, n)
	for i := range n {
		group.Go(func() error {
			if inner.Err() != nil {
				return inner.Err()
			}
			failed[i] = do(inner, i)
			return failed[i]
		})
	}
	err := group.Wait()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("simulating: %w", ctx.Err())
	}
	for _, f := range failed {
		if f != nil && !errors.Is(f, context.Canceled) {
			return f
		}
	}
	return err
}

// selectMedian returns which run is shown: the completed one of the nearest rank, or the first where none is.
func selectMedian(runs []summary) int {
	completed := sortCompleted(runs)
	if len(completed) == 0 {
		return 0
	}
	return completed[nearestRank(len(completed), 50)]
}

// sortCompleted returns the places of the completed runs, the shortest first, and of equal ones that with the first seed.
func sortCompleted(runs []summary) []int {
	var completed []int
	for i, r := range runs {
		if r.Outcome == fleet.Completed {
			completed = append(completed, i)
		}
	}
	slices.SortStableFunc(completed, func(a, b int) int { return cmp.Compare(runs[a].Duration, runs[b].Duration) })
	return completed
}

// nearestRank is the place of a percentile among n sorted values: the first that is not below so many percent of them.
func nearestRank(n, percent int) int { return max((n*percent+99)/100, 1) - 1 }
