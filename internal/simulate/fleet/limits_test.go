package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/pool"
)

// TestRolloutLimits: the limits of an UpdatePolicy bound how many of twelve machines are changed at
// once. Durations can be told by hand.
func TestRolloutLimits(t *testing.T) {
	t.Parallel()
	const work, replacement = 150 * time.Second, 12 * time.Minute
	const asked = 5 * time.Second // A machine that waits for its turn is asked about again after it.
	number, percent := intstr.FromInt32, intstr.FromString
	inPlace := Update{
		InPlace: true, PolicyName: "keep", Steps: []inplace.Step{{Updater: "u", SetsVersion: true}},
		Policy:  inplace.Policy{MaxAttempts: 1, AttemptTimeout: time.Hour},
		Timings: Timings{Updaters: map[string]Distribution{"u": FixedDuration(work)}},
	}
	failing := inPlace
	failing.Timings.UpdateFails = 1
	first := inPlace
	first.Policy.Canary = 1
	replace := Update{Timings: Timings{
		Create: FixedDuration(10 * time.Minute), Delete: FixedDuration(2 * time.Minute),
	}}
	for name, tt := range map[string]struct {
		update Update
		limits *pool.Limits
		want   time.Duration
		// why is what a run says that gets stuck, and failed how many updates have failed then.
		why    string
		failed int
	}{
		"none": {update: inPlace, want: work},
		"a canary and batches": {
			update: inPlace, limits: &pool.Limits{Canary: number(2), Batches: []intstr.IntOrString{number(4)}}, want: 4 * work,
		},
		"a canary of 25 %": {update: inPlace, limits: &pool.Limits{Canary: percent("25%")}, want: 2 * work},
		"a canary of 25 %, its first machine alone": {
			update: first, limits: &pool.Limits{Canary: percent("25%")}, want: 3*work + asked,
		},
		"two are replaced at once": {
			update: replace, limits: &pool.Limits{MaxInFlight: 2}, want: 6 * replacement,
		},
		"a partition": {
			update: inPlace, limits: &pool.Limits{Partition: number(3)},
			why: "p: the UpdatePolicy keeps 3 Machines at the old template (partition 3)",
		},
		"all fail": {update: failing, why: "failed", failed: 12},
		"a canary fails": {
			update: failing, limits: &pool.Limits{Canary: number(1)}, failed: 1,
			why: "p: Machine c/p/1, one of the first 1, failed (canary 1). " +
				"Fix: repair it, or change the template; machine c/p/1: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := tt.update
			pool.Limits = tt.limits
			r := mustRun(t, Config{Begin: epoch, Verify: true, Clusters: []Cluster{{
				Name: "c", Target: v(30), Source: offer(29, 30),
				ControlPlane: ControlPlane{Version: v(29), Replicas: 1, Update: replace},
				Pools:        []Pool{{Name: "p", Version: v(29), Replicas: 12, MaxUnavailable: 12, Update: pool}},
			}}}, 1)
			if r.Violation != nil {
				t.Fatalf("%+v", r.Violation)
			}
			failed := 0
			for _, g := range r.Groups {
				failed += g.GaveUp
			}
			if failed != tt.failed {
				t.Errorf("%d updates failed, want %d", failed, tt.failed)
			}
			if tt.why != "" {
				why := r.Clusters[0].Why
				if r.Outcome != Stuck || !strings.Contains(why, tt.why) {
					t.Errorf("the outcome is %s, %q, want %s because of %q", r.Outcome, why, Stuck, tt.why)
				}
				return
			}
			if got := r.Duration.Round(time.Second); r.Outcome != Completed || got != replacement+tt.want {
				t.Errorf("it is %s after %s, want %s", r.Outcome, got, replacement+tt.want)
			}
		})
	}
}

// TestLimitThatBounds: the path of a run names the limit that bound a pool for the longest time.
func TestLimitThatBounds(t *testing.T) {
	t.Parallel()
	replace := Update{Timings: Timings{
		Create: FixedDuration(10 * time.Minute), Delete: FixedDuration(2 * time.Minute),
	}}
	for want, limits := range map[string]pool.Limits{
		"maxInFlight 2":    {MaxInFlight: 2, Canary: intstr.FromInt32(1)},
		"batches 1":        {Canary: intstr.FromInt32(1), Batches: []intstr.IntOrString{intstr.FromInt32(1)}},
		"canary 75%":       {Canary: intstr.FromString("75%")},
		"maxUnavailable 4": {MaxInFlight: 12},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			update := replace
			update.Limits = &limits
			r := mustRun(t, Config{Begin: epoch, Verify: true, Clusters: []Cluster{{
				Name: "c", Target: v(30), Source: offer(29, 30),
				ControlPlane: ControlPlane{Version: v(29), Replicas: 1, Update: replace},
				Pools:        []Pool{{Name: "p", Version: v(29), Replicas: 12, MaxUnavailable: 4, Update: update}},
			}}}, 1)
			if r.Violation != nil || r.Outcome != Completed {
				t.Fatalf("%s: %+v", r.Outcome, r.Violation)
			}
			var got []string
			for _, s := range r.Path {
				if s.Group == "p" {
					got = append(got, s.Limit)
				}
			}
			if diff := cmp.Diff([]string{want}, got); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPartitionHoldsNobodyYet: a partition is no cause while other machines may still begin.
func TestPartitionHoldsNobodyYet(t *testing.T) {
	t.Parallel()
	update := Update{Limits: &pool.Limits{Partition: intstr.FromInt32(3)}, Timings: Timings{
		Create: FixedDuration(10 * time.Minute), Delete: FixedDuration(2 * time.Minute),
	}}
	for name, tt := range map[string]struct {
		horizon time.Duration
		held    bool
	}{"rolling": {time.Hour, false}, "all others done": {10 * time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := mustRun(t, Config{Begin: epoch, Verify: true, Horizon: tt.horizon, Clusters: []Cluster{{
				Name: "c", Target: v(30), Source: offer(29, 30),
				ControlPlane: ControlPlane{Version: v(29), Replicas: 1},
				Pools:        []Pool{{Name: "p", Version: v(29), Replicas: 12, MaxUnavailable: 1, Update: update}},
			}}}, 1)
			if held := strings.Contains(r.Why, "partition 3"); held != tt.held || r.Outcome == Completed {
				t.Errorf("the outcome is %s because of %q", r.Outcome, r.Why)
			}
		})
	}
}
