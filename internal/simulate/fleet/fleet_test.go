package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

func v(minor int) version.Version { return version.MustParse(fmt.Sprintf("v1.%d.0", minor)) }

func offer(from, to int) plan.VersionList {
	var list plan.VersionList
	for m := from; m <= to; m++ {
		list = append(list, v(m))
	}
	return list
}

// inPlaceUpdate is a policy that keeps machines, with one updater.
func inPlaceUpdate(maxInFlight int) Update {
	return Update{
		InPlace: true, Guarded: true, PolicyName: "keep", Steps: []inplace.Step{{Updater: "kubelet", SetsVersion: true, NeedsDrain: true}},
		Policy: policy.Policy{MaxInFlight: int32(maxInFlight), Drain: true, Soak: time.Minute, MaxAttempts: 3, AttemptTimeout: 30 * time.Minute},
		Timings: Timings{
			Drain: Uniform(30*time.Second, 2*time.Minute), Updaters: map[string]Distribution{"": LogNormal(3*time.Minute, 5*time.Minute)},
			Settle: FixedDuration(10 * time.Second), React: FixedDuration(time.Second), Attend: FixedDuration(time.Hour),
		},
	}
}

// replacing takes as long as a machine that boots anew on hardware: 10 to 15 minutes (seed 002).
func replacing() Update {
	return Update{Timings: Timings{
		Create: Uniform(10*time.Minute, 15*time.Minute), Delete: FixedDuration(time.Minute), React: FixedDuration(time.Second), GiveUp: FixedDuration(30 * time.Minute),
	}}
}

var epoch = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// telco is so many pools of so many machines in one cluster, four minors behind.
func telco(pools, size int, update Update) Config {
	c := Cluster{
		Name: "ran", Target: v(33), Source: offer(29, 33), PoolsAtOnce: pools,
		ControlPlane: ControlPlane{Version: v(29), Replicas: 3, MaxSurge: 1, Update: replacing()},
	}
	surge := 1
	if update.InPlace {
		surge = 0 // What has to be, for Cluster API to make no machine before it asks.
	}
	for i := range pools {
		c.Pools = append(c.Pools, Pool{Name: fmt.Sprintf("pool-%d", i+1), Version: v(29), Replicas: size, MaxSurge: surge, MaxUnavailable: max(1, size/10), Update: update})
	}
	return Config{Clusters: []Cluster{c}, Begin: epoch}
}

func mustRun(t *testing.T, c Config, seed uint64) Run {
	t.Helper()
	r, err := Simulate(t.Context(), c, seed)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestArithmetic checks durations that can be told by hand.
func TestArithmetic(t *testing.T) {
	t.Parallel()
	update := Update{
		InPlace: true, PolicyName: "keep", Steps: []inplace.Step{{Updater: "u", SetsVersion: true}}, Policy: policy.Policy{MaxAttempts: 1, AttemptTimeout: time.Hour},
		Timings: Timings{Updaters: map[string]Distribution{"u": FixedDuration(150 * time.Second)}},
	}
	replace := Update{Timings: Timings{Create: FixedDuration(10 * time.Minute), Delete: FixedDuration(2 * time.Minute)}}
	one := func(cp, pool Update, change func(*Cluster)) Config {
		c := Cluster{
			Name: "c", Target: v(30), Source: offer(29, 30), ControlPlane: ControlPlane{Version: v(29), Replicas: 1, Update: cp},
			Pools: []Pool{{Name: "p", Version: v(29), Replicas: 6, MaxUnavailable: 2, Update: pool}},
		}
		if change != nil {
			change(&c)
		}
		return Config{Clusters: []Cluster{c}, Begin: epoch, Verify: true}
	}
	for name, tt := range map[string]struct {
		config Config
		want   time.Duration
	}{
		// Each update is one call in which it begins, and one each 15 s until the updater is done.
		"in place": {config: one(update, update, nil), want: 150*time.Second + 3*150*time.Second},
		// With maxUnavailable, an old machine goes before the new one is asked for.
		"replaced":            {config: one(replace, replace, nil), want: 12*time.Minute + 3*12*time.Minute},
		"replaced by a surge": {config: one(replace, replace, func(c *Cluster) { c.ControlPlane.MaxSurge, c.ControlPlane.Replicas = 1, 3 }), want: 3*12*time.Minute + 3*12*time.Minute},
		"no workers":          {config: one(replace, replace, func(c *Cluster) { c.Pools = nil }), want: 12 * time.Minute},
		"at the target":       {config: one(replace, replace, func(c *Cluster) { c.Target = v(29) }), want: 0},
		// It is 03:00; the first step waits for 04:00, and the window is still open for the last.
		"a window": {config: one(replace, replace, func(c *Cluster) {
			c.Gates = func(gate.Step) []gate.Gate {
				return []gate.Gate{{Name: "night", Windows: []gate.Window{{Location: time.UTC, From: 4 * 60, To: 7 * 60}}}}
			}
		}), want: time.Hour + 4*12*time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := mustRun(t, tt.config, 1)
			if r.Outcome != Completed || r.Violation != nil {
				t.Fatalf("%s: %s, %+v", r.Outcome, r.Why, r.Violation)
			}
			if r.Duration.Round(time.Second) != tt.want {
				t.Errorf("it takes %s, want %s; path %v", r.Duration, tt.want, r.Path)
			}
			total := time.Duration(0)
			for _, s := range r.Path {
				total += s.Took
			}
			if total != r.Duration {
				t.Errorf("the critical path takes %s of %s: %v", total, r.Duration, r.Path)
			}
		})
	}
}

// text is all of a Run.
func text(r Run) string {
	detail := *r.Detail
	r.Detail = nil
	return fmt.Sprintf("%+v\n%+v", r, detail)
}

// TestSameSeed: the same Config and seed give the same Run, and another seed another one.
func TestSameSeed(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 30; seed++ {
		c := newRandom(seed).config(true)
		c.Detail = true
		first, again := mustRun(t, c, seed), mustRun(t, c, seed)
		if diff := cmp.Diff(text(first), text(again)); diff != "" {
			t.Fatalf("seed %d (-first +again):\n%s", seed, diff)
		}
	}
	c := telco(2, 20, inPlaceUpdate(0))
	if a, b := mustRun(t, c, 1), mustRun(t, c, 2); a.Duration == b.Duration {
		t.Errorf("both seeds take %s", a.Duration)
	}
}

// TestSkippedCalls: a run in which calls are skipped whose answers are known is the run in which all are made.
func TestSkippedCalls(t *testing.T) {
	t.Parallel()
	fewer := 0
	fleets(t, 300, func(seed uint64) error {
		c := newRandom(seed).config(false)
		c.Budget, c.Detail = Budget{}, true
		// Of what happens at one moment, the order is another one.
		for i := range c.Clusters {
			c.Clusters[i].ControlPlane.Update.Timings.React = Uniform(0, 3*time.Second)
			for j := range c.Clusters[i].Pools {
				c.Clusters[i].Pools[j].Update.Timings.React = Uniform(0, 3*time.Second)
				// The engine remembers the begin of a machine that has gone for some minutes; whose turn it then is depends on who asks first.
				c.Clusters[i].Pools[j].Update.Policy.Remediate = false
			}
		}
		var runs [2]Run
		for i, exact := range []bool{true, false} {
			s, err := newSim(&c, seed)
			if err != nil {
				return err
			}
			s.exact = exact
			if runs[i], err = s.run(t.Context()); err != nil {
				return err
			}
		}
		if runs[1].Events > runs[0].Events {
			return fmt.Errorf("%d events without calls, %d with them", runs[1].Events, runs[0].Events)
		}
		if seed == 1 {
			fewer = runs[0].Events - runs[1].Events
		}
		runs[1].Events = runs[0].Events
		if diff := cmp.Diff(text(runs[0]), text(runs[1])); diff != "" {
			return errors.New("(-all calls +skipped):\n" + diff)
		}
		return nil
	})
	if fewer == 0 {
		t.Error("no call was skipped")
	}
}

// TestBudget: requests that the API server does not take make an upgrade longer.
func TestBudget(t *testing.T) {
	t.Parallel()
	c := telco(4, 50, inPlaceUpdate(0))
	plenty := mustRun(t, c, 1)
	c.Budget = Budget{QPS: 0.5, Burst: 2}
	scarce := mustRun(t, c, 1)
	if plenty.Writes.Waited != 0 || scarce.Writes.Waited == 0 || scarce.Duration <= plenty.Duration {
		t.Errorf("with plenty %s and %s waited, with few %s and %s waited", plenty.Duration, plenty.Writes.Waited, scarce.Duration, scarce.Writes.Waited)
	}
	seconds := scarce.Duration.Seconds()
	if most := 0.5*seconds + 2 + 100; float64(scarce.Writes.Engine) > most {
		t.Errorf("%d writes in %s, of at most %.0f", scarce.Writes.Engine, scarce.Duration, most)
	}
}

// TestFailures: what fails is retried, remediated, or stays where it is and says so.
func TestFailures(t *testing.T) {
	t.Parallel()
	config := func(change func(*Update)) Config {
		u := inPlaceUpdate(0)
		u.Guarded = false
		u.Timings.Create, u.Timings.Delete, u.Timings.GiveUp = FixedDuration(time.Minute), FixedDuration(time.Minute), FixedDuration(10*time.Minute)
		change(&u)
		c := telco(1, 40, u)
		c.Verify = true
		return c
	}
	for name, tt := range map[string]struct {
		config Config
		want   Outcome
		why    string
		check  func(GroupRun) bool
	}{
		"attempts that fail are made again": {
			config: config(func(u *Update) { u.Timings.UpdateFails, u.Policy.MaxAttempts = 0.2, 20 }), want: Completed,
			check: func(g GroupRun) bool { return g.Failed > 0 && g.GaveUp == 0 && g.Updated == 80 && g.Replaced == 0 },
		},
		"attempts that hang end with their time": {
			config: config(func(u *Update) { u.Timings.UpdateHangs, u.Policy.MaxAttempts = 0.2, 20 }), want: Completed,
			check: func(g GroupRun) bool { return g.Failed > 0 && g.Updated == 80 },
		},
		"a person has the last one retried": {
			config: config(func(u *Update) { u.Timings.UpdateFails, u.Policy.MaxAttempts = 0.3, 1 }), want: Completed,
			check: func(g GroupRun) bool { return g.GaveUp > 0 && g.Updated == 80 },
		},
		"nobody comes": {
			config: config(func(u *Update) {
				u.Timings.UpdateFails, u.Policy.MaxAttempts, u.Timings.Attend = 0.3, 1, Distribution{}
			}), want: Stuck, why: "no attempt is left",
			check: func(g GroupRun) bool { return g.GaveUp > 0 },
		},
		"failed machines are replaced": {
			config: config(func(u *Update) { u.Timings.UpdateFails, u.Policy.MaxAttempts, u.Policy.Remediate = 0.3, 1, true }), want: Completed,
			check: func(g GroupRun) bool { return g.GaveUp > 0 && g.Replaced == g.GaveUp && g.Updated+g.Replaced == 80 },
		},
		"new machines that never come up are made anew": {
			config: config(func(u *Update) { u.InPlace, u.Timings.CreateFails = false, 0.3 }), want: Completed,
			check: func(g GroupRun) bool { return g.Failed > 0 && g.Replaced == 80 },
		},
		"the guard refuses a surge": {config: func() Config {
			c := config(func(u *Update) { u.Guarded = true })
			c.Clusters[0].Pools[0].MaxSurge, c.Clusters[0].Pools[0].MaxUnavailable = 1, 0
			return c
		}(), want: Stuck, why: "maxSurge", check: func(g GroupRun) bool { return g.Updated == 0 && g.Replaced == 0 }},
		"a surge in place is one machine that comes, and one that goes": {config: func() Config {
			c := config(func(*Update) {})
			c.Clusters[0].Pools[0].MaxSurge, c.Clusters[0].Pools[0].MaxUnavailable = 1, 0
			return c
		}(), want: Completed, check: func(g GroupRun) bool { return g.Updated == 2*39 && g.Replaced == 2 && g.MaxDown == 0 }},
		"machines that never come up, at no cost": {config: func() Config {
			c := config(func(u *Update) {
				u.InPlace, u.Timings = false, Timings{CreateFails: 1}
			})
			return c
		}(), want: GivenUp, check: func(g GroupRun) bool { return g.Failed > 0 && g.Replaced == 0 }},
		"a gate that nothing opens": {config: func() Config {
			c := config(func(*Update) {})
			c.Clusters[0].Gates = func(gate.Step) []gate.Gate { return []gate.Gate{{Name: "shut", NeedsApproval: true}} }
			return c
		}(), want: GivenUp, why: "shut", check: func(g GroupRun) bool { return g.Updated == 0 }},
		"there is no way": {config: func() Config {
			c := config(func(*Update) {})
			c.Clusters[0].Source = plan.VersionList{v(29), v(31), v(33)}
			return c
		}(), want: Stuck, why: "v1.30", check: func(g GroupRun) bool { return g.Updated == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := mustRun(t, tt.config, 1)
			if r.Outcome != tt.want || !strings.Contains(r.Why, tt.why) || r.Violation != nil || !tt.check(r.Groups[1]) {
				t.Errorf("%s: %s; %+v; %+v", r.Outcome, r.Why, r.Groups, r.Violation)
			}
		})
	}
}

// TestWhereTimeGoes: the critical path names what is really waited for.
func TestWhereTimeGoes(t *testing.T) {
	t.Parallel()
	replace := Update{Timings: Timings{Create: FixedDuration(time.Hour), Delete: FixedDuration(time.Minute)}}
	c := Config{Begin: epoch, Horizon: 100 * time.Hour, Clusters: []Cluster{{
		Name: "c", Target: v(30), Source: offer(29, 30), ControlPlane: ControlPlane{Version: v(29), Replicas: 3, MaxSurge: 1, Update: replacing()},
		Pools: []Pool{{Name: "p", Version: v(29), Replicas: 10, MaxUnavailable: 10, Update: replace}},
	}}}
	r := mustRun(t, c, 1)
	if last := r.Path[len(r.Path)-1]; last.Group != "p" || last.Took != 61*time.Minute {
		t.Errorf("the last machines take an hour to come, and it ends with %+v", last)
	}
	c.Clusters[0].Gates = func(step gate.Step) []gate.Gate {
		return []gate.Gate{{Name: "shut", NeedsApproval: step.Hook == gate.BeforeWorkersUpgrade}}
	}
	r = mustRun(t, c, 1)
	if last := r.Path[len(r.Path)-1]; r.Outcome != GivenUp || last.Limit != "gate shut" || last.Took < 90*time.Hour {
		t.Errorf("%s, and it ends with %+v", r.Outcome, last)
	}
	// Of a day, all but some hours is waiting for a person.
	u := inPlaceUpdate(0)
	u.Timings.Attend, u.Timings.UpdateFails, u.Policy.MaxAttempts = FixedDuration(24*time.Hour), 0.05, 1
	c = telco(1, 40, u)
	r = mustRun(t, c, 1)
	waited := time.Duration(0)
	for _, s := range r.Path {
		if s.Limit == Attention && s.Group == "pool-1" {
			waited += s.Took
		}
	}
	if r.Outcome != Completed || waited < 20*time.Hour || waited > r.Duration {
		t.Errorf("%s after %s, of which a person took %s: %+v", r.Outcome, r.Duration, waited, r.Path)
	}
	// One machine that waits for its turn once does not make maxInFlight the limit.
	c = telco(1, 40, inPlaceUpdate(4))
	c.Clusters[0].Pools[0].MaxUnavailable = 4
	if r := mustRun(t, c, 1); !strings.Contains(fmt.Sprint(r.Path), "maxUnavailable 4") {
		t.Errorf("maxUnavailable and maxInFlight are 4, and the path is %+v", r.Path)
	}
	c.Clusters[0].Pools[0].MaxUnavailable = 20
	if r := mustRun(t, c, 1); !strings.Contains(fmt.Sprint(r.Path), "maxInFlight 4") {
		t.Errorf("maxInFlight is 4, and the path is %+v", r.Path)
	}
}

// TestDrainedOnce: a node whose drain could not be recorded is drained all the same.
func TestDrainedOnce(t *testing.T) {
	t.Parallel()
	c := telco(1, 20, inPlaceUpdate(0))
	c.Clusters[0].Target = v(30)
	c.Faults.Lost, c.Verify = 0.3, true
	for seed := range uint64(10) {
		if r := mustRun(t, c, seed); r.Outcome != Completed || r.Groups[1].Drained != 20 {
			t.Errorf("seed %d: %s, %d drains of 20 machines: %s %+v", seed, r.Outcome, r.Groups[1].Drained, r.Why, r.Violation)
		}
	}
}

// TestOutages: machines of a failure domain that is away wait for it.
func TestOutages(t *testing.T) {
	t.Parallel()
	u := inPlaceUpdate(0)
	u.Domains = []string{"north", "south"}
	c := telco(1, 20, u)
	without := mustRun(t, c, 1)
	c.Faults.OutageEvery, c.Faults.Outage, c.Verify = FixedDuration(2*time.Hour), FixedDuration(time.Hour), true
	with := mustRun(t, c, 1)
	if err := checkSound(with, nil); err != nil {
		t.Fatal(err)
	}
	if with.Duration <= without.Duration {
		t.Errorf("with outages %s, without %s", with.Duration, without.Duration)
	}
	// New machines wait as well.
	replaced := replacing()
	replaced.Domains = u.Domains
	c.Clusters[0].Pools[0].Update, c.Clusters[0].ControlPlane.Update = replaced, replaced
	c.Faults.OutageEvery, c.Faults.Outage = FixedDuration(30*time.Minute), FixedDuration(2*time.Hour)
	away := mustRun(t, c, 1)
	c.Faults.OutageEvery = Distribution{}
	if there := mustRun(t, c, 1); away.Duration < there.Duration+2*time.Hour {
		t.Errorf("machines are replaced in %s with outages, in %s without", away.Duration, there.Duration)
	}
	c.Faults.OutageEvery = FixedDuration(2 * time.Hour)
	c.Clusters[0].Source = plan.VersionList{v(29), v(33)}
	if r := mustRun(t, c, 1); r.Outcome != Stuck {
		t.Errorf("without a way the upgrade is %s after %s", r.Outcome, r.Duration)
	}
}

// TestBadConfig: all that is wrong is said at once, and nothing is simulated.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	c := telco(2, 3, inPlaceUpdate(2))
	c.Clusters[0].ControlPlane.Replicas = 0
	c.Clusters[0].Pools[0].Replicas = -1
	c.Clusters[0].Pools[1].Name = "pool-1"
	c.Clusters = append(c.Clusters, Cluster{Name: "ran"})
	c.Faults.Lost = 2
	_, err := Simulate(t.Context(), c, 1)
	for _, want := range []string{"0 machines", "below zero", "stands twice", "target is missing", "rate of lost"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in: %v", want, err)
		}
	}
	if _, err := Simulate(t.Context(), Config{}, 1); err == nil {
		t.Error("a Config without clusters is simulated")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Simulate(ctx, telco(1, 1, replacing()), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestClustersAtOnce: clusters take turns.
func TestClustersAtOnce(t *testing.T) {
	t.Parallel()
	c := telco(1, 3, replacing())
	c.Verify = true
	for i := range 5 {
		another := c.Clusters[0]
		another.Name = fmt.Sprintf("c%d", i)
		c.Clusters = append(c.Clusters, another)
	}
	all := mustRun(t, c, 1)
	c.ClustersAtOnce = 2
	r := mustRun(t, c, 1)
	if r.Outcome != Completed || r.Duration < 2*all.Duration {
		t.Errorf("%s, two at once take %s, all at once %s", r.Outcome, r.Duration, all.Duration)
	}
	for i, one := range r.Clusters {
		running := 0
		for _, other := range r.Clusters {
			if other.Began <= one.Began && one.Began < other.Ended {
				running++
			}
		}
		if running > 2 {
			t.Errorf("cluster %d: %d clusters at once", i, running)
		}
	}
}
