package whatif

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/pkg/version"
)

var (
	v31 = version.MustParse("v1.31.4")
	v32 = version.MustParse("v1.32.1")
	v33 = version.MustParse("v1.33.0")
)

// fakeRun takes longer with some seeds than with others, and less time with more pools at once. Every tenth seed gets stuck.
func fakeRun(_ context.Context, c fleet.Config, seed uint64) (fleet.Run, error) {
	run := fleet.Run{
		Seed: seed, Outcome: fleet.Completed, Machines: 13, MaxInFlight: 4, Writes: fleet.Writes{Engine: 40, Others: 100, Waited: time.Second},
		Duration: time.Duration(10+seed*7%5) * time.Hour / time.Duration(max(c.Clusters[0].PoolsAtOnce, 1)),
		Groups: []fleet.GroupRun{
			{Cluster: "prod", Group: fleet.ControlPlaneGroup, Machines: 3, Stops: 2, Replaced: 6, Drained: 6, MaxDown: 1, Down: time.Hour},
			{Cluster: "prod", Group: "a", Machines: 10, Stops: 1, Updated: 10, Drained: 9, Failed: 2, GaveUp: 1, MaxDown: 3, Down: 2 * time.Hour},
		},
	}
	run.Path = []fleet.Segment{
		{Cluster: "prod", Group: fleet.ControlPlaneGroup, Limit: "one machine at a time", Took: run.Duration / 4},
		{Cluster: "prod", Group: "a", Limit: "maxUnavailable 3", Took: run.Duration - run.Duration/4},
	}
	if seed%10 == 0 {
		run.Outcome, run.Why = fleet.Stuck, "machine a-1 waits for a person"
	}
	if c.Detail {
		run.Detail = &fleet.Detail{
			Order: []version.Version{v31, v32, v33},
			Operations: []fleet.Operation{
				{Cluster: "prod", Group: fleet.ControlPlaneGroup, From: v31, To: v32, Ended: run.Duration / 4, Limit: "one machine at a time"},
				{Cluster: "prod", Group: "a", From: v31, To: v32, InPlace: true, Began: run.Duration / 4, Ended: run.Duration, Limit: "maxUnavailable 3"},
			},
			InFlight: []fleet.Sample{{At: 0, Value: 1}, {At: run.Duration, Value: 0}},
			Versions: []fleet.VersionSample{{At: 0, Counts: []int{13, 0, 0}}, {At: run.Duration, Counts: []int{0, 13, 0}}},
			Holds:    []fleet.Operation{{Cluster: "prod", Began: time.Minute, Ended: time.Hour, Limit: "gate weekend"}},
		}
	}
	return run, nil
}

func fleetOf(pools ...fleet.Pool) fleet.Config {
	return fleet.Config{Clusters: []fleet.Cluster{{
		Name: "prod", Target: v33, ControlPlane: fleet.ControlPlane{Version: v31, Replicas: 3}, Pools: pools, PoolsAtOnce: 1,
	}}}
}

func asJSON(t *testing.T, r Report) string {
	t.Helper()
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatalf("the report is no JSON: %v", err)
	}
	return string(text)
}

func TestReportDoesNotDependOnParallelism(t *testing.T) {
	request := Request{
		Config: fleetOf(fleet.Pool{Name: "a", Version: v31, Replicas: 10}, fleet.Pool{Name: "b", Version: v31, Replicas: 10}),
		Runs:   30, Seed: 5, Simulate: fakeRun, Assumptions: []string{"drains take no time"},
	}
	request.Variants = Variants(request.Config)
	if len(request.Variants) < 3 {
		t.Fatalf("%d variants are too few to compare", len(request.Variants))
	}
	var want string
	for _, parallel := range []int{0, 1, 3, 16} {
		request.Parallel = parallel
		var told []int
		total := len(request.Variants) * (request.Runs + 1)
		request.Progress = func(done, of int) {
			if of != total {
				t.Errorf("progress of %d runs, want %d", of, total)
			}
			told = append(told, done)
		}
		report, err := Compute(t.Context(), request)
		if err != nil {
			t.Fatalf("Compute: %v", err)
		}
		got := asJSON(t, report)
		if want == "" {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("parallel %d differs:\n%s", parallel, diff)
		}
		if !slices.IsSorted(told) || len(told) != total || told[total-1] != total {
			t.Errorf("progress was told as %v", told)
		}
	}
}

func TestReport(t *testing.T) {
	config := fleetOf(fleet.Pool{Name: "a", Version: v31, Replicas: 10})
	config.Verify = true
	report, err := Compute(t.Context(), Request{Config: config, Runs: 11, Seed: 10, Simulate: fakeRun})
	if err != nil {
		t.Fatalf("Compute: %v", err)
	}
	wantInputs := Inputs{
		Clusters: 1, Pools: 1, Machines: 13, ControlPlaneMachines: 3, From: []string{"v1.31.4"}, To: []string{"v1.33.0"}, Runs: 11, Seed: 10, Verified: true,
	}
	if diff := cmp.Diff(wantInputs, report.Inputs); diff != "" {
		t.Errorf("inputs:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"v1.31.4", "v1.32.1", "v1.33.0"}, report.Versions); diff != "" {
		t.Errorf("versions:\n%s", diff)
	}
	result := report.Variants[0]
	// Seeds 10 and 20 get stuck. The rest takes 10 to 14 hours: seeds 15 10 h, 13 and 18 11 h, 11 and 16 12 h, 14 and 19 13 h, 12 and 17 14 h.
	hours := func(n float64) float64 { return n * 3600 }
	wantDuration := &Durations{Runs: 9, MinSeconds: hours(10), P10Seconds: hours(10), P50Seconds: hours(12), P90Seconds: hours(14), MaxSeconds: hours(14)}
	if diff := cmp.Diff(wantDuration, result.Duration); diff != "" {
		t.Errorf("durations:\n%s", diff)
	}
	if diff := cmp.Diff(Outcomes{Completed: 9, Stuck: 2}, result.Outcomes); diff != "" {
		t.Errorf("outcomes:\n%s", diff)
	}
	if diff := cmp.Diff(PerRun{Failed: 2, GaveUp: 1}, result.PerRun); diff != "" {
		t.Errorf("per run:\n%s", diff)
	}
	if diff := cmp.Diff([]Unfinished{{Outcome: "Stuck", Why: "machine a-1 waits for a person", Runs: 2, Seed: 10}}, result.Unfinished); diff != "" {
		t.Errorf("unfinished:\n%s", diff)
	}
	median := result.Median
	wantMedian := Median{
		Seed: 16, Outcome: "Completed", DurationSeconds: hours(12), DownSeconds: hours(3), Replaced: 6, Updated: 10, Drained: 15, Failed: 2, GaveUp: 1, MaxInFlight: 4,
		Writes: Writes{Engine: 40, Others: 100, EnginePerMachine: 3.08, OthersPerMachine: 7.69, WaitedSeconds: 1},
		Groups: []Group{
			{Cluster: "prod", Group: "control plane", Machines: 3, Stops: 2, Disruptions: 6, Replaced: 6, Drained: 6, MaxDown: 1, DownSeconds: hours(1)},
			{Cluster: "prod", Group: "a", Machines: 10, Stops: 1, Disruptions: 10, Updated: 10, Drained: 9, Failed: 2, GaveUp: 1, MaxDown: 3, DownSeconds: hours(2)},
		},
		CriticalPath: CriticalPath{
			Sentence: "75 % of the time goes into pool a at maxUnavailable 3; 25 % goes into the control plane, one machine at a time",
			Shares: []Share{
				{Kind: Pool, Limit: "maxUnavailable 3", Groups: 1, LongestCluster: "prod", Longest: "a", LongestSeconds: hours(9), Seconds: hours(9), Share: 0.75},
				{Kind: ControlPlane, Limit: "one machine at a time", Groups: 1, LongestCluster: "prod", Longest: "control plane", LongestSeconds: hours(3), Seconds: hours(3), Share: 0.25},
			},
		},
		Charts: Charts{
			Timeline: []Row{
				{Kind: Wait, Cluster: "prod", LastCluster: "prod", Groups: 1, Bars: []Bar{{Limit: "gate weekend", BeganSeconds: 60, EndedSeconds: hours(1), Operations: 1}}},
				{Kind: ControlPlane, Cluster: "prod", Name: "control plane", LastCluster: "prod", LastName: "control plane", Groups: 1, Bars: []Bar{
					{From: "v1.31.4", To: "v1.32.1", Method: Replace, Limit: "one machine at a time", EndedSeconds: hours(3), Operations: 1}}},
				{Kind: Pool, Cluster: "prod", Name: "a", LastCluster: "prod", LastName: "a", Groups: 1, Bars: []Bar{
					{From: "v1.31.4", To: "v1.32.1", Method: InPlace, Limit: "maxUnavailable 3", BeganSeconds: hours(3), EndedSeconds: hours(12), Operations: 1}}},
			},
			InFlight: []Point{{AtSeconds: 0, Machines: 1}, {AtSeconds: hours(12)}},
			Versions: []string{"v1.31.4", "v1.32.1", "v1.33.0"},
			Machines: []MachinesPoint{{Counts: []int{13, 0, 0}}, {AtSeconds: hours(12), Counts: []int{0, 13, 0}}},
		},
	}
	if diff := cmp.Diff(wantMedian, median); diff != "" {
		t.Errorf("median run:\n%s", diff)
	}
}

// Lists are documented to be never null, and a report of nothing at all is one that programs can read.
func TestReportOfNothing(t *testing.T) {
	nothing := func(context.Context, fleet.Config, uint64) (fleet.Run, error) {
		return fleet.Run{Outcome: fleet.GivenUp}, nil
	}
	report, err := Compute(t.Context(), Request{Runs: 1, Simulate: nothing})
	if err != nil {
		t.Fatalf("Compute: %v", err)
	}
	text := asJSON(t, report)
	if got := strings.Count(text, "null"); got != 2 {
		t.Errorf("%d nulls, want those of the duration and the violation:\n%s", got, text)
	}
}

func TestEveryVariantMeetsTheSameSeeds(t *testing.T) {
	var mu sync.Mutex
	plain, detailed := map[int][]uint64{}, map[int][]uint64{}
	simulate := func(ctx context.Context, c fleet.Config, seed uint64) (fleet.Run, error) {
		mu.Lock()
		defer mu.Unlock()
		into := plain
		if c.Detail {
			into = detailed
		}
		into[c.Clusters[0].PoolsAtOnce] = append(into[c.Clusters[0].PoolsAtOnce], seed)
		return fakeRun(ctx, c, seed)
	}
	config := fleetOf()
	// What the caller asks for does not count: detail is for medians only.
	config.Detail = true
	variants := make([]Variant, 0, 2)
	for _, n := range []int{1, 2} {
		variants = append(variants, Variant{Name: fmt.Sprint(n), Change: func(c fleet.Config) fleet.Config {
			c.Clusters = slices.Clone(c.Clusters)
			c.Clusters[0].PoolsAtOnce = n
			return c
		}})
	}
	if _, err := Compute(t.Context(), Request{Config: config, Runs: 5, Seed: 1, Simulate: simulate, Variants: variants}); err != nil {
		t.Fatalf("Compute: %v", err)
	}
	want := []uint64{1, 2, 3, 4, 5}
	if diff := cmp.Diff(map[int][]uint64{1: want, 2: want}, plain); diff != "" {
		t.Errorf("seeds of the runs:\n%s", diff)
	}
	if diff := cmp.Diff(map[int][]uint64{1: {1}, 2: {1}}, detailed); diff != "" {
		t.Errorf("seeds of the runs with detail:\n%s", diff)
	}
}

func TestFirstViolationIsReported(t *testing.T) {
	simulate := func(ctx context.Context, c fleet.Config, seed uint64) (fleet.Run, error) {
		run, err := fakeRun(ctx, c, seed)
		if seed == 3 || seed == 7 {
			run.Outcome = fleet.Violated
			run.Violation = &fleet.Violation{At: time.Minute, Cluster: "prod", Problem: fmt.Sprintf("problem %d", seed), Trace: []string{"first", "second"}}
		}
		return run, err
	}
	report, err := Compute(t.Context(), Request{Config: fleetOf(), Runs: 8, Seed: 1, Parallel: 4, Simulate: simulate})
	if err != nil {
		t.Fatalf("Compute: %v", err)
	}
	want := &Violation{Seed: 3, AtSeconds: 60, Cluster: "prod", Problem: "problem 3", Trace: []string{"first", "second"}}
	if diff := cmp.Diff(want, report.Variants[0].Violation); diff != "" {
		t.Errorf("violation:\n%s", diff)
	}
	wantReasons := []Unfinished{{Outcome: "Violated", Why: "problem 3", Runs: 1, Seed: 3}, {Outcome: "Violated", Why: "problem 7", Runs: 1, Seed: 7}}
	if diff := cmp.Diff(wantReasons, report.Variants[0].Unfinished); diff != "" {
		t.Errorf("reasons:\n%s", diff)
	}
	if got := report.Variants[0].Outcomes; got != (Outcomes{Completed: 6, Violated: 2}) {
		t.Errorf("outcomes %+v", got)
	}
}

func TestErrors(t *testing.T) {
	broken := errors.New("the fleet is broken")
	unsteady := 0
	tests := map[string]struct {
		change func(*Request)
		want   string
	}{
		"no runs":   {func(r *Request) { r.Runs = 0 }, "0 runs: at least 1 is needed"},
		"last seed": {func(r *Request) { r.Seed = 1<<64 - 1 }, "leaves no room for 3 runs"},
		"same name": {func(r *Request) { r.Variants = []Variant{asConfigured(), asConfigured()} }, `two variants are named "as configured"`},
		"a run fails": {func(r *Request) {
			r.Parallel = 3
			r.Simulate = func(_ context.Context, _ fleet.Config, seed uint64) (fleet.Run, error) {
				if seed == 2 {
					return fleet.Run{}, broken
				}
				return fleet.Run{Outcome: fleet.Completed}, nil
			}
		}, `simulating "as configured" with seed 2: the fleet is broken`},
		"not deterministic": {func(r *Request) {
			r.Simulate = func(context.Context, fleet.Config, uint64) (fleet.Run, error) {
				unsteady++
				return fleet.Run{Outcome: fleet.Completed, Duration: time.Duration(unsteady) * time.Hour}, nil
			}
		}, "the second time"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			request := Request{Config: fleetOf(), Runs: 3, Seed: 1, Simulate: fakeRun}
			test.change(&request)
			_, err := Compute(t.Context(), request)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	started := 0
	simulate := func(ctx context.Context, _ fleet.Config, _ uint64) (fleet.Run, error) {
		started++
		cancel()
		<-ctx.Done()
		return fleet.Run{}, ctx.Err()
	}
	_, err := Compute(ctx, Request{Config: fleetOf(), Runs: 100, Simulate: simulate})
	if !errors.Is(err, context.Canceled) || started != 1 {
		t.Errorf("error %v after %d runs, want that of the context after one", err, started)
	}
}

func TestNearestRank(t *testing.T) {
	for _, test := range []struct{ n, percent, want int }{
		{1, 10, 0}, {1, 90, 0}, {2, 50, 0}, {3, 50, 1}, {4, 50, 1}, {5, 50, 2}, {10, 10, 0}, {11, 10, 1}, {10, 90, 8}, {11, 90, 9}, {100, 90, 89}, {1000, 10, 99},
	} {
		if got := nearestRank(test.n, test.percent); got != test.want {
			t.Errorf("p%d of %d values is at %d, want %d", test.percent, test.n, got, test.want)
		}
	}
}

// TestFaultsAreThoseOfTheEngine: outages of failure domains are part of the world.
func TestFaultsAreThoseOfTheEngine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		faults fleet.Faults
		want   bool
	}{
		"none":      {},
		"outages":   {faults: fleet.Faults{OutageEvery: fleet.FixedDuration(time.Hour), Outage: fleet.FixedDuration(time.Minute)}},
		"conflicts": {faults: fleet.Faults{Conflict: 0.1}, want: true},
		"stale":     {faults: fleet.Faults{Stale: 0.1, Lag: time.Second}, want: true},
		"lost":      {faults: fleet.Faults{Lost: 0.1}, want: true},
		"crashes":   {faults: fleet.Faults{Crash: 0.1, Restart: time.Second, OutageEvery: fleet.FixedDuration(time.Hour)}, want: true},
	} {
		if got := describeInputs(Request{Config: fleet.Config{Faults: tt.faults}}); got.Faults != tt.want {
			t.Errorf("%s: %v", name, got.Faults)
		}
	}
}

// TestReservedNames: every built-in variant has one of them.
func TestReservedNames(t *testing.T) {
	t.Parallel()
	reserved := ReservedNames()
	if len(reserved) != 10 {
		t.Errorf("%d names: %q", len(reserved), reserved)
	}
	for _, v := range Variants(fleet.Config{ClustersAtOnce: 1, Clusters: []fleet.Cluster{{Pools: make([]fleet.Pool, 9)}, {}}}) {
		if !slices.Contains(reserved, v.Name) {
			t.Errorf("%q is not reserved", v.Name)
		}
	}
}
