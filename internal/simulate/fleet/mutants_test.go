package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/pkg/version"
)

// forgetful records nothing about a machine, and says that it has.
type forgetful struct{ inplace.Effects }

func (forgetful) Save(context.Context, *inplace.Progress, *inplace.Progress) error { return nil }

// crowded counts no other machine.
type crowded struct{ inplace.Effects }

func (e crowded) Begin(ctx context.Context, decide func(inplace.Others) (bool, error)) (*inplace.Reply, error) {
	return e.Effects.Begin(ctx, func(o inplace.Others) (bool, error) {
		o.InFlight = 0
		return decide(o)
	})
}

// hurried takes every update for settled.
type hurried struct{ inplace.Effects }

func (e hurried) Begin(ctx context.Context, decide func(inplace.Others) (bool, error)) (*inplace.Reply, error) {
	return e.Effects.Begin(ctx, func(o inplace.Others) (bool, error) {
		o.Settled = true
		return decide(o)
	})
}

// undrained says of every node that it is drained.
type undrained struct{ inplace.Effects }

func (e undrained) Drain(ctx context.Context, began time.Time) (inplace.DrainState, error) {
	_, err := e.Effects.Drain(ctx, began)
	return inplace.DrainState{Done: true}, err
}

// hasty takes the updater's word for the state of the node.
func hasty(ctx context.Context, f inplace.Facts, e inplace.Effects) (inplace.Reply, error) {
	if p := f.Progress; p != nil && (p.Phase == inplace.Verifying || p.Phase == inplace.Soaking) {
		f.Node.Ready, f.Node.ReadySince, f.Node.Kubelet = true, time.Time{}, f.Desired
	}
	return inplace.Execute(ctx, f, e)
}

// unrecorded loses what is recorded on the Cluster about the step that is announced.
type unrecorded struct{ chain.Effects }

func (e unrecorded) Record(ctx context.Context, r chain.Recorded) error {
	r.Intent = nil
	return e.Effects.Record(ctx, r)
}

// noSkew lets kubelets lag as far as they like.
func noSkew() version.SkewPolicy {
	return version.SkewPolicy{Name: "none", Rules: []version.SkewRule{{MaxLag: 99}}}
}

func withMachine(wrap func(inplace.Effects) inplace.Effects) Engine {
	return Engine{Machine: func(ctx context.Context, f inplace.Facts, e inplace.Effects) (inplace.Reply, error) {
		return inplace.Execute(ctx, f, wrap(e))
	}}
}

func withChain(change func(chain.State, chain.Decision) chain.Decision) Engine {
	return Engine{Chain: func(s chain.State, now time.Time) chain.Decision { return change(s, chain.Decide(s, now)) }}
}

// mutants are deciders and engines with one thing wrong.
func mutants() map[string]Engine {
	return map[string]Engine{
		"the skew check is skipped": {Chain: func(s chain.State, now time.Time) chain.Decision {
			s.Skew = noSkew()
			return chain.Decide(s, now)
		}},
		"the intent of a step is dropped": {Carry: func(ctx context.Context, s chain.State, r chain.Recorded, d chain.Decision, now time.Time, e chain.Effects) (chain.Outcome, error) {
			outcome, err := chain.Execute(ctx, s, r, d, now, unrecorded{e})
			return outcome, err
		}},
		"the step's intent is not waited for": withChain(func(_ chain.State, d chain.Decision) chain.Decision {
			if call, ok := d.Action.(chain.CallHook); ok && call.Hook == chain.BeforeControlPlaneUpgrade {
				d.Action = chain.RaiseControlPlane{To: call.Step}
				d.Objects.ControlPlane = chain.Object{Version: call.Step}
			}
			return d
		}),
		"two control plane machines start": {ControlPlane: func(c Rollout) RolloutMove {
			move := DecideControlPlane(c)
			if c.Old < 2 {
				return move
			}
			return RolloutMove{Create: 2 * move.Create, Update: 2 * move.Update, Delete: 2 * move.Delete}
		}},
		"a control plane machine starts while another moves": {ControlPlane: func(c Rollout) RolloutMove {
			switch {
			case c.moving() == 0 || c.Old == 0:
				return DecideControlPlane(c)
			case c.InPlace:
				return RolloutMove{Update: 1}
			default:
				return RolloutMove{Delete: 1}
			}
		}},
		"a failed update goes on by itself": {Machine: func(ctx context.Context, f inplace.Facts, e inplace.Effects) (inplace.Reply, error) {
			f.Retry = true
			f.Policy.MaxAttempts = 1
			return inplace.Execute(ctx, f, e)
		}},
		"more attempts than allowed": {Machine: func(ctx context.Context, f inplace.Facts, e inplace.Effects) (inplace.Reply, error) {
			f.Policy.MaxAttempts += 5
			return inplace.Execute(ctx, f, e)
		}},
		"nodes are not drained": withMachine(func(e inplace.Effects) inplace.Effects { return undrained{e} }),
		"workers are not waited for": withChain(func(s chain.State, d chain.Decision) chain.Decision {
			if d.Reason != chain.WorkersUpgrading {
				return d
			}
			for i := range s.Groups {
				s.Groups[i].Upgrading, s.Groups[i].Oldest = false, s.Groups[i].Version
			}
			return chain.Decide(s, time.Time{})
		}),
		"a pool goes below maxUnavailable": {Pool: func(r pool.Rollout) pool.Rollout {
			r.Unavailable += 2
			return decidePool(r)
		}},
		"the progress of a machine is dropped":       withMachine(func(e inplace.Effects) inplace.Effects { return forgetful{e} }),
		"maxInFlight is not counted":                 withMachine(func(e inplace.Effects) inplace.Effects { return crowded{e} }),
		"the canary is not alone":                    withMachine(func(e inplace.Effects) inplace.Effects { return hurried{e} }),
		"what the updater says counts, not the node": {Machine: hasty},
	}
}

// mutated is a fleet in which each of the mutants can do harm, unlike for each seed, with faults.
func mutated(seed uint64) Config {
	r := newRandom(seed)
	c := telco(2+r.IntN(2), 5+r.IntN(5), inPlaceUpdate(2))
	cluster := &c.Clusters[0]
	cluster.Target, cluster.Source = v(31), offer(27, 31)
	cluster.ControlPlane.Version, cluster.ControlPlane.MaxSurge = v(27), r.IntN(2)
	if r.chance(0.5) {
		cluster.ControlPlane.Update, cluster.ControlPlane.MaxSurge = inPlaceUpdate(0), 0
	}
	for i := range cluster.Pools {
		cluster.Pools[i].Version, cluster.Pools[i].MaxUnavailable = v(27), 3
	}
	for i := range cluster.Pools {
		cluster.Pools[i].Update.Policy.Alone = 1
		cluster.Pools[i].Update.Timings.UpdateFails = 0.6
	}
	// One pool is replaced.
	cluster.Pools[0].Update = replacing()
	c.Faults = Faults{Lost: 0.02, Conflict: 0.05, Crash: 0.01, Stale: 0.05, Lag: 2 * time.Second, Restart: 10 * time.Second}
	c.Verify = true
	c.Horizon = 60 * 24 * time.Hour
	return c
}

// TestMutants: each mutant is caught, each time, by an invariant; and what they are made of is not.
func TestMutants(t *testing.T) {
	t.Parallel()
	const seeds = 20
	for seed := uint64(1); seed <= seeds; seed++ {
		if err := checkSound(Simulate(t.Context(), mutated(seed), seed)); err != nil {
			t.Errorf("seed %d, without a mutation: %v", seed, err)
		}
	}
	for name, engine := range mutants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				c := mutated(seed)
				c.Engine = engine
				r, err := Simulate(t.Context(), c, seed)
				if err != nil || r.Violation == nil {
					t.Errorf("seed %d: not caught: %s after %s: %s, %v", seed, r.Outcome, r.Duration, r.Why, err)
				} else if seed == 1 {
					t.Log(r.Violation.Problem)
				}
			}
		})
	}
}
