package fleet

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/pkg/version"
)

// random makes fleets that are legal to begin with: small, and unlike each other.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random {
	return random{rand.New(rand.NewPCG(seed, 7))}
}

func (r random) chance(p float64) bool { return r.Float64() < p }

func (r random) duration(most time.Duration) Distribution {
	a, b := time.Duration(r.Int64N(int64(most))), time.Duration(r.Int64N(int64(most)))
	switch r.IntN(4) {
	case 0:
		return FixedDuration(a.Round(time.Second))
	case 1:
		return LogNormal(a+time.Second, a+time.Second+b/4)
	case 2:
		return Measured([]time.Duration{a, b, (a + b) / 2})
	default:
		return Uniform(min(a, b), max(a, b))
	}
}

func (r random) update(controlPlane bool) Update {
	u := Update{Timings: Timings{
		Create: r.duration(5 * time.Minute), Delete: r.duration(time.Minute), Drain: r.duration(time.Minute), Settle: r.duration(time.Minute),
		React: r.duration(3 * time.Second), Attend: Uniform(time.Minute, 20*time.Minute), GiveUp: FixedDuration(5 * time.Minute),
		Updaters: map[string]Distribution{"": r.duration(3 * time.Minute)},
	}}
	if r.chance(0.3) {
		u.Timings.CreateFails, u.Timings.UpdateFails, u.Timings.UpdateHangs = r.Float64()/3, r.Float64()/3, r.Float64()/4
	}
	u.Domains = []string{"a", "b", "c"}[:r.IntN(4)]
	if !controlPlane && r.chance(0.3) {
		u.Limits = r.limits()
	}
	if r.chance(0.4) {
		return u
	}
	u.InPlace, u.Guarded = true, r.chance(0.7)
	u.PolicyName = fmt.Sprintf("policy-%d", r.IntN(2))
	u.Policy = policy.Policy{
		MaxInFlight: r.Int32N(4), Alone: r.IntN(2), Drain: r.chance(0.7), Soak: time.Duration(r.IntN(4)) * 30 * time.Second, MaxAttempts: 1 + r.IntN(3),
		AttemptTimeout: time.Duration(5+r.IntN(5)) * time.Minute, Remediate: r.chance(0.3),
	}
	most := r.IntN(3)
	u.Steps = []inplace.Step{{Updater: "kubelet", SetsVersion: true, NeedsDrain: r.chance(0.7), MaxMinors: most}}
	if r.chance(0.3) {
		u.Steps = append(u.Steps, inplace.Step{Updater: "files", NeedsDrain: r.chance(0.3)})
	}
	if controlPlane {
		u.Steps[0].MaxMinors = 0
	}
	return u
}

// limits are those of windlass manager, but a partition: an upgrade would not end.
func (r random) limits() *pool.Limits {
	share := func() intstr.IntOrString {
		if r.chance(0.5) {
			return intstr.FromString(fmt.Sprintf("%d%%", r.IntN(101)))
		}
		return intstr.FromInt32(r.Int32N(5))
	}
	l := &pool.Limits{MaxInFlight: r.Int32N(4), Canary: share()}
	for range r.IntN(3) {
		l.Batches = append(l.Batches, share())
	}
	if r.chance(0.3) {
		l.MaxFailures = 1 + r.Int32N(3)
	}
	return l
}

func (r random) cluster(i int) Cluster {
	from := 24 + r.IntN(6)
	to := from + 1 + r.IntN(5)
	c := Cluster{
		Name: fmt.Sprintf("c%d", i), Target: v(to), Source: offer(from-3, to), PoolsAtOnce: r.IntN(4),
		ControlPlane: ControlPlane{Version: v(from), Replicas: 1 + 2*r.IntN(3), MaxSurge: r.IntN(2), Update: r.update(true)},
	}
	c.ControlPlane.Update.PolicyName = "control plane"
	if c.ControlPlane.Update.InPlace && c.ControlPlane.Update.Guarded {
		c.ControlPlane.MaxSurge = 0
	}
	policies := map[string]policy.Policy{}
	for n := range r.IntN(5) {
		p := Pool{
			Name: fmt.Sprintf("p%d", n), Version: v(from), Replicas: r.IntN(12), MaxSurge: r.IntN(3), MaxUnavailable: r.IntN(4), Update: r.update(false),
		}
		if p.Update.InPlace {
			// One policy says the same to all.
			if shared, ok := policies[p.Update.PolicyName]; ok {
				p.Update.Policy = shared
			}
			policies[p.Update.PolicyName] = p.Update.Policy
			if p.Update.Guarded {
				p.MaxSurge = 0 // The guard refuses a surge.
			}
			p.MaxMinorStep = uint32(p.Update.Steps[0].MaxMinors)
		}
		lag := from - r.IntN(3)
		lagging := p.Replicas > 0 && lag < from && version.KubernetesSkew().Allows(v(lag).Minor(), v(from).Minor()) && p.MaxMinorStep != 1
		if lagging && r.chance(0.5) {
			p.Oldest, p.Lagging = v(lag), 1+r.IntN(p.Replicas)
			if r.chance(0.5) {
				p.Version, p.Lagging = v(lag), 0
				p.Oldest = version.Version{}
			}
		}
		c.Pools = append(c.Pools, p)
	}
	if r.chance(0.1) {
		windows := []gate.Gate{{Name: "night", Windows: []gate.Window{{Location: time.UTC, From: gate.Clock(r.IntN(1440)), To: gate.Clock(r.IntN(1440))}}}}
		c.Gates = func(gate.Step) []gate.Gate { return windows }
	}
	return c
}

func (r random) config(faults bool) Config {
	c := Config{Begin: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), ClustersAtOnce: r.IntN(3), Verify: true}
	for i := range 1 + r.IntN(2) {
		c.Clusters = append(c.Clusters, r.cluster(i))
	}
	if r.chance(0.3) {
		c.Budget = Budget{QPS: 0.1 + 5*r.Float64(), Burst: 1 + r.IntN(10)}
	}
	if !faults {
		return c
	}
	c.Faults = Faults{Lag: time.Duration(r.IntN(10)) * time.Second, Restart: time.Duration(r.IntN(60)) * time.Second}
	for _, rate := range []*float64{&c.Faults.Conflict, &c.Faults.Stale, &c.Faults.Lost, &c.Faults.Crash} {
		if r.chance(0.5) {
			*rate = r.Float64() / 4
		}
	}
	if r.chance(0.3) {
		c.Faults.OutageEvery, c.Faults.Outage = Uniform(time.Hour, 10*time.Hour), Uniform(time.Minute, 20*time.Minute)
	}
	return c
}

// fleets runs f for seeds from 1 on, on all processors.
func fleets(t *testing.T, n int, f func(seed uint64) error) {
	t.Helper()
	var next atomic.Uint64
	var group sync.WaitGroup
	var failed atomic.Bool
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for seed := next.Add(1); seed <= uint64(n) && !failed.Load(); seed = next.Add(1) {
				if err := f(seed); err != nil {
					failed.Store(true)
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		})
	}
	group.Wait()
}

// checkSound checks that an upgrade ends, and that nothing is violated on the way.
func checkSound(r Run, err error) error {
	switch {
	case err != nil:
		return err
	case r.Violation != nil:
		return fmt.Errorf("%s, %s: %s\n  %s", r.Violation.At, r.Violation.Cluster, r.Violation.Problem, strings.Join(r.Violation.Trace, "\n  "))
	case r.Outcome != Completed:
		return fmt.Errorf("it is %s after %s: %s", r.Outcome, r.Duration, r.Why)
	default:
		return nil
	}
}

// TestRandomFleets simulates fleets that are unlike each other, with faults in all places, and checks every
// invariant at every step, and that every upgrade ends. TestMutants finds each fault within fewer of them.
func TestRandomFleets(t *testing.T) {
	t.Parallel()
	n := 4_000
	if os.Getenv("WINDLASS_LONG") == "1" {
		n = 200_000
	}
	began := time.Now()
	var machines, events atomic.Int64
	fleets(t, n, func(seed uint64) error {
		c := newRandom(seed).config(seed%4 != 0)
		r, err := Simulate(t.Context(), c, seed)
		machines.Add(int64(r.Machines))
		events.Add(int64(r.Events))
		return checkSound(r, err)
	})
	t.Logf("%d fleets with %d machines, %d events, %s", n, machines.Load(), events.Load(), time.Since(began).Round(time.Millisecond))
}
