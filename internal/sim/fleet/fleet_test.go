package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/core/inplace"
	"github.com/windlass-dev/windlass/internal/sim/dist"
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
		Policy: inplace.Policy{MaxInFlight: maxInFlight, Drain: true, Soak: time.Minute, MaxAttempts: 3, AttemptTimeout: 30 * time.Minute},
		Timings: Timings{
			Drain: dist.Uniform(30*time.Second, 2*time.Minute), Updaters: map[string]dist.Distribution{"": dist.LogNormal(3*time.Minute, 5*time.Minute)},
			Settle: dist.Fixed(10 * time.Second), React: dist.Fixed(time.Second), Attend: dist.Fixed(time.Hour),
		},
	}
}

func replacing() Update {
	return Update{Timings: Timings{
		Create: dist.Uniform(10*time.Minute, 15*time.Minute), Delete: dist.Fixed(time.Minute), React: dist.Fixed(time.Second), GiveUp: dist.Fixed(30 * time.Minute),
	}}
}

// telco is so many pools of so many machines in one cluster, four minors behind.
func telco(pools, size int, update Update) Config {
	c := Cluster{
		Name: "ran", Target: v(33), Source: offer(29, 33), PoolsAtOnce: pools,
		ControlPlane: ControlPlane{Version: v(29), Replicas: 3, MaxSurge: 1, Update: replacing()},
	}
	for i := range pools {
		c.Pools = append(c.Pools, Pool{Name: fmt.Sprintf("pool-%d", i+1), Version: v(29), Replicas: size, MaxSurge: 1, MaxUnavailable: size / 10, Update: update})
	}
	return Config{Clusters: []Cluster{c}, Begin: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)}
}

func TestTelco(t *testing.T) {
	c := telco(300, 100, inPlaceUpdate(300))
	c.Detail = true
	began := time.Now()
	r, err := Simulate(t.Context(), c, 1)
	t.Log(time.Since(began), err, r.Outcome, r.Why, r.Duration, r.Machines, r.MaxInFlight, r.Writes, r.Events, len(r.Path))
	for _, s := range r.Path {
		t.Log(s)
	}
	c.Verify = true
	began = time.Now()
	r, err = Simulate(t.Context(), c, 1)
	t.Log(time.Since(began), err, r.Outcome, r.Why, r.Duration, r.Machines, r.MaxInFlight, r.Writes, r.Events, len(r.Path), r.Violation)
	c = telco(300, 100, replacing())
	c.Verify = true
	began = time.Now()
	r, err = Simulate(t.Context(), c, 1)
	t.Log(time.Since(began), err, r.Outcome, r.Why, r.Duration, r.Machines, r.MaxInFlight, r.Writes, r.Events, len(r.Path), r.Violation)
	for _, s := range r.Path {
		t.Log(s)
	}
}
