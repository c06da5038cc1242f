package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// TestRolloutLimits: the limits of an UpdatePolicy bound how many of twelve machines are changed at
// once. Durations can be told by hand.
func TestRolloutLimits(t *testing.T) {
	t.Parallel()
	const work, replacement = 150 * time.Second, 12 * time.Minute
	number, percent := intstr.FromInt32, intstr.FromString
	inPlace := Update{
		InPlace: true, PolicyName: "keep", Steps: []inplace.Step{{Updater: "u", SetsVersion: true}},
		Policy:  policy.Policy{MaxAttempts: 1, AttemptTimeout: time.Hour},
		Timings: Timings{Updaters: map[string]Distribution{"u": FixedDuration(work)}},
	}
	failing := inPlace
	failing.Timings.UpdateFails = 1
	remediated := failing
	remediated.Policy.Remediate = true
	remediated.Timings.Create, remediated.Timings.Delete = FixedDuration(time.Minute), FixedDuration(time.Minute)
	first := inPlace
	first.Policy.Alone = 1
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
			update: inPlace, limits: &pool.Limits{Canary: number(2),
				Batches: []intstr.IntOrString{number(4)}}, want: 5 * work,
		},
		"a canary of 25 %": {update: inPlace, limits: &pool.Limits{Canary: percent("25%")},
			want: 3 * work},
		"a canary of 25 %, and the updaters' own": {
			update: first, limits: &pool.Limits{Canary: percent("25%")}, want: 3 * work,
		},
		"two are replaced at once": {
			update: replace, limits: &pool.Limits{MaxInFlight: 2}, want: 6 * replacement,
		},
		"a partition": {
			update: inPlace, limits: &pool.Limits{Partition: number(3)},
			why: "p: the UpdatePolicy keeps 3 Machines at the old template (partition 3). " +
				"Fix: lower partition when they are to change",
		},
		"all fail": {update: failing, why: "failed", failed: 12},
		"a canary fails": {
			update: failing, limits: &pool.Limits{Canary: number(1)}, failed: 1,
			why: "p: Machine c/p/1, one of the first 1, failed (canary 1). " +
				"Fix: repair it, or change the template; machine c/p/1: ",
		},
		"a canary fails and is remediated": {
			update: remediated, limits: &pool.Limits{Canary: number(1)}, failed: 1,
			why: "p: the update of Machine c/p/1, one of the first ones, failed, and the Machine is gone. ",
		},
		"the first of two canaries fails and is remediated": {
			update: remediated, limits: &pool.Limits{Canary: number(2)}, failed: 1,
			why: "one of the first ones, failed, and the Machine is gone. ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := tt.update
			pool.Limits = tt.limits
			r := mustRun(t, Config{Begin: epoch, Verify: true, Clusters: []Cluster{{
				Name: "c", Target: v(30), Source: offer(29, 30),
				ControlPlane: ControlPlane{Version: v(29), Replicas: 1, Update: replace},
				Pools: []Pool{{Name: "p", Version: v(29), Replicas: 12, MaxUnavailable: 12,
					Update: pool}},
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
		"maxInFlight 2": {MaxInFlight: 2, Canary: intstr.FromInt32(1)},
		"batches 1": {Canary: intstr.FromInt32(1),
			Batches: []intstr.IntOrString{intstr.FromInt32(1)}},
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
				Pools: []Pool{{Name: "p", Version: v(29), Replicas: 12, MaxUnavailable: 4,
					Update: update}},
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
				Pools: []Pool{{Name: "p", Version: v(29), Replicas: 12, MaxUnavailable: 1,
					Update: update}},
			}}}, 1)
			if held := strings.Contains(r.Why, "partition 3"); held != tt.held || r.Outcome == Completed {
				t.Errorf("the outcome is %s because of %q", r.Outcome, r.Why)
			}
		})
	}
}

// TestOrderDeadlinesAndSoak: places, deadlines and the soak time of machines that replace others
// bound a pool of six. Durations can be told by hand.
func TestOrderDeadlinesAndSoak(t *testing.T) {
	t.Parallel()
	const work, replacement, soak = 150 * time.Second, 12 * time.Minute, 5 * time.Minute
	const rack = "rack"
	number := intstr.FromInt32
	replace := Update{Timings: Timings{
		Create: FixedDuration(10 * time.Minute), Delete: FixedDuration(2 * time.Minute),
	}}
	inPlace := Update{
		InPlace: true, Guarded: true, PolicyName: "keep",
		Steps:   []inplace.Step{{Updater: "u", SetsVersion: true}},
		Policy:  policy.Policy{MaxAttempts: 1, AttemptTimeout: 10 * time.Hour, Soak: soak},
		Timings: Timings{Updaters: map[string]Distribution{"u": FixedDuration(work)}},
	}
	hangs := inPlace
	hangs.Timings.UpdateHangs = 1
	zones := func(u Update) Update {
		u.Domains = []string{"b", "a", "c"}
		return u
	}
	racks := func(u Update) Update {
		u.Labels = []map[string]string{{rack: "2"}, {rack: "1"}, {rack: "1", "spare": ""}}
		return u
	}
	spare := labels.Set{"spare": ""}.AsSelector()
	byZone := policy.Order{Labels: []string{corev1.LabelTopologyZone}, OneAtATime: true}
	byRack := policy.Order{Labels: []string{rack}, OneAtATime: true, Last: spare}
	for name, tt := range map[string]struct {
		update Update
		limits pool.Limits
		want   time.Duration
		// why is what a run says that does not end within the horizon, and changed how many machines have
		// been changed then.
		horizon time.Duration
		why     string
		changed int
	}{
		"a canary that is replaced soaks": {
			update: replace, limits: pool.Limits{Canary: number(2), Soak: soak}, want: 2*replacement + soak,
		},
		"nobody waits for the last ones to soak": {
			update: replace, limits: pool.Limits{Batches: []intstr.IntOrString{number(3)}, Soak: soak},
			want: 2*replacement + soak,
		},
		"an update in place has soaked when it ends": {
			update: inPlace, limits: pool.Limits{Canary: number(2), Soak: soak}, want: 3 * (work + soak),
		},
		"three zones in place": {
			update: zones(inPlace), limits: pool.Limits{Order: byZone}, want: 3 * (work + soak),
		},
		"three zones, replaced": {
			update: zones(replace), limits: pool.Limits{Order: byZone}, want: 3 * replacement,
		},
		"three zones, replaced, soaking": {
			update: zones(replace), limits: pool.Limits{Order: byZone, Soak: soak},
			want: 3*replacement + 2*soak,
		},
		"two racks, and the spare ones last": {
			update: racks(inPlace), limits: pool.Limits{Order: byRack}, want: 3 * (work + soak),
		},
		"racks that nobody waits for": {
			update: racks(inPlace), limits: pool.Limits{Order: policy.Order{Labels: []string{rack}}},
			want: work + soak,
		},
		"a machine's deadline": {
			update: hangs, limits: pool.Limits{Canary: number(1), MachineDeadline: time.Hour},
			horizon: 2 * time.Hour,
			why: "p: the change of Machine c/p/1 takes longer than 1h0m0s (machineDeadlineSeconds). " +
				"Fix: repair it, or set the annotation windlass.dev/allow-replacement on the Machine and " +
				"delete it, or raise the deadline",
		},
		"a machine's deadline that is not over": {
			update: hangs, limits: pool.Limits{Canary: number(1), MachineDeadline: 4 * time.Hour},
			horizon: 2 * time.Hour,
		},
		"failures by deadline": {
			update: hangs, limits: pool.Limits{MaxFailures: 6, MachineDeadline: time.Hour},
			horizon: 2 * time.Hour,
		},
		"the group's deadline": {
			update: replace, limits: pool.Limits{MaxInFlight: 1, GroupDeadline: 30 * time.Minute},
			horizon: 10 * time.Hour, changed: 3,
			why: "p: the rollout takes longer than 30m0s (groupDeadlineSeconds). " +
				"Fix: find out why, and raise the deadline",
		},
		"a strict order in which the first zone never ends": {
			update: zones(hangs), limits: pool.Limits{Order: byZone}, horizon: 2 * time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			update := tt.update
			update.Limits = &tt.limits
			r := mustRun(t, Config{Begin: epoch, Verify: true, Horizon: tt.horizon, Clusters: []Cluster{{
				Name: "c", Target: v(30), Source: offer(29, 30),
				ControlPlane: ControlPlane{Version: v(29), Replicas: 1, Update: replace},
				Pools: []Pool{{
					Name: "p", Version: v(29), Replicas: 6, MaxUnavailable: 6, Update: update,
				}},
			}}}, 1)
			if r.Violation != nil {
				t.Fatalf("%+v", r.Violation)
			}
			if tt.horizon == 0 {
				if got := r.Duration.Round(time.Second); r.Outcome != Completed || got != replacement+tt.want {
					t.Errorf("it is %s after %s, want %s: %s", r.Outcome, got, replacement+tt.want, r.Why)
				}
				return
			}
			changed := r.Groups[1].Updated + r.Groups[1].Replaced
			if r.Outcome == Completed || !strings.Contains(r.Why, tt.why) || changed != tt.changed {
				t.Errorf("it is %s, with %d machines changed: %q", r.Outcome, changed, r.Why)
			}
		})
	}
}

// TestDeadlineAfterHold: the deadline of a group counts from zero when what held its rollout is
// over.
func TestDeadlineAfterHold(t *testing.T) {
	t.Parallel()
	update := Update{
		InPlace: true, Guarded: true, PolicyName: "keep",
		Steps:   []inplace.Step{{Updater: "u", SetsVersion: true}},
		Policy:  policy.Policy{MaxAttempts: 1, AttemptTimeout: 10 * time.Hour},
		Timings: Timings{Updaters: map[string]Distribution{"u": FixedDuration(100 * time.Minute)}},
		Limits:  &pool.Limits{MachineDeadline: time.Hour, GroupDeadline: 90 * time.Minute},
	}
	r := mustRun(t, Config{Begin: epoch, Verify: true, Clusters: []Cluster{{
		Name: "c", Target: v(30), Source: offer(29, 30),
		ControlPlane: ControlPlane{Version: v(29), Replicas: 1},
		Pools:        []Pool{{Name: "p", Version: v(29), Replicas: 2, MaxUnavailable: 1, Update: update}},
	}}}, 1)
	if r.Outcome != Completed || r.Violation != nil {
		t.Errorf("it is %s: %s %+v", r.Outcome, r.Why, r.Violation)
	}
}

// TestDeadlineOfMachine: the deadline of a machine counts neither its wait for a turn nor its soak.
func TestDeadlineOfMachine(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]policy.Policy{
		"queue": {MaxInFlight: 1}, "soak": {Soak: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy.MaxAttempts, policy.AttemptTimeout = 1, 10*time.Hour
			update := Update{
				InPlace: true, Guarded: true, PolicyName: "keep", Policy: policy,
				Steps:   []inplace.Step{{Updater: "u", SetsVersion: true}},
				Timings: Timings{Updaters: map[string]Distribution{"u": FixedDuration(15 * time.Minute)}},
				Limits:  &pool.Limits{MachineDeadline: 20 * time.Minute},
			}
			// At the horizon a machine waits for its turn, or soaks.
			r := mustRun(t, Config{Begin: epoch, Verify: true, Horizon: 40 * time.Minute,
				Clusters: []Cluster{{
					Name: "c", Target: v(30), Source: offer(29, 30),
					ControlPlane: ControlPlane{Version: v(29), Replicas: 1},
					Pools: []Pool{{
						Name: "p", Version: v(29), Replicas: 6, MaxUnavailable: 3, Update: update,
					}},
				}}}, 1)
			if r.Outcome != GivenUp || strings.Contains(r.Why, "machineDeadlineSeconds") {
				t.Errorf("it is %s: %q", r.Outcome, r.Why)
			}
		})
	}
}

// TestTurns: a machine begins when all of earlier places are done, and those of its place together.
func TestTurns(t *testing.T) {
	t.Parallel()
	update := Update{
		Domains: []string{"b", "a", "c"},
		Limits: &pool.Limits{Order: policy.Order{
			Labels: []string{corev1.LabelTopologyZone}, OneAtATime: true,
		}},
		Timings: Timings{
			Create: FixedDuration(10 * time.Minute), Delete: FixedDuration(2 * time.Minute),
		},
	}
	r := mustRun(t, Config{Begin: epoch, Verify: true, Detail: true, Clusters: []Cluster{{
		Name: "c", Target: v(30), Source: offer(29, 30),
		ControlPlane: ControlPlane{Version: v(29), Replicas: 1},
		Pools:        []Pool{{Name: "p", Version: v(29), Replicas: 7, MaxUnavailable: 7, Update: update}},
	}}}, 1)
	var got []int
	for _, s := range r.Detail.InFlight {
		if s.At.Round(time.Minute)%(12*time.Minute) == 0 && s.Value > 0 {
			got = append(got, s.Value)
		}
	}
	if diff := cmp.Diff([]int{2, 3, 2}, got); diff != "" || r.Outcome != Completed {
		t.Errorf("%s; machines that begin together (-want +got):\n%s", r.Outcome, diff)
	}
	const want = "order by topology.kubernetes.io/zone, one value at a time"
	if got := r.Path[len(r.Path)-1].Limit; got != want {
		t.Errorf("the limit is %q", got)
	}
}
