package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/pkg/version"
)

// maxRecords is how many decisions that only record something the topology controller makes on one reading.
const maxRecords = 8

// reconcileTopology is one reconcile of the topology controller: it reads, decides, and has the engine carry that out.
func (s *sim) reconcileTopology(ctx context.Context, c *cluster) {
	if !c.asked || c.ended {
		return
	}
	state, recorded := s.readChain(c)
	effects := &chainEffects{sim: s, c: c, revision: c.revision}
	for range maxRecords {
		state.Answers = s.answers.Of(c.key)
		now := s.time()
		c.decision = s.engine.Chain(state, now)
		outcome, err := s.engine.Carry(ctx, state, recorded, c.decision, now, effects)
		if err != nil {
			c.note(s, "%v", err)
			s.wakeTopology(c, retryAfterError)
			return
		}
		switch {
		case outcome.Answer != nil:
			s.answers.Remember(c.key, *outcome.Answer)
			state.Answers = s.answers.Of(c.key)
			c.decision = s.engine.Chain(state, now)
		case outcome.Recorded != nil:
			s.answers.Forget(c.key)
			recorded = *outcome.Recorded
			state = state.With(recorded)
		}
		if outcome.Recorded == nil || effects.changed {
			if outcome.RequeueAfter > 0 {
				// A hook is asked again every minute; until the window opens, its answer is known.
				s.wakeTopology(c, max(outcome.RequeueAfter, effects.opens))
			}
			s.decided(c)
			return
		}
	}
	s.wakeTopology(c, time.Second)
}

// readChain reads a cluster's objects.
func (s *sim) readChain(c *cluster) (chain.State, chain.Recorded) {
	cp := c.controlPlane()
	shown := s.read(cp)
	state := chain.State{
		Target: c.Target, Begun: true, Initialized: true, Source: c.Source, Skew: c.Skew, Concurrency: c.PoolsAtOnce, Groups: c.state,
		ControlPlane: chain.ControlPlane{Exists: true, Provisioned: true, Version: cp.template, Upgrading: shown.settled != cp.template, Stamp: c.stamp},
	}
	for i, g := range c.groups[1:] {
		shown := s.read(g)
		c.state[i] = chain.Group{
			Name: g.name, Kind: g.kind, Exists: true, Version: g.template, Oldest: shown.oldest, Upgrading: shown.settled != g.template, Missing: shown.missing,
			MaxMinorStep: g.minorStep,
		}
	}
	return state.With(c.recorded), c.recorded
}

// read is what a cache shows of a group. What the engine has written itself it always sees.
func (s *sim) read(g *group) groupView {
	f := &s.cfg.Faults
	if s.now-g.changed < f.Lag && s.strikes(f.Stale) {
		// The cache tells when it has caught up.
		s.wakeTopology(g.cluster, g.changed+f.Lag-s.now)
		return g.before
	}
	return g.shown
}

// decided keeps account of what a cluster waits for, and of its end.
func (s *sim) decided(c *cluster) {
	reason := c.decision.Reason
	if reason == chain.HookBlocking || reason == chain.HookFailed {
		if c.hold == nil {
			c.hold = &span{Operation: Operation{Cluster: c.Name, Began: s.now, Limit: c.heldBy}}
		}
		return
	}
	s.release(c)
	c.done = reason == chain.UpToDate && c.controlPlane().template == c.Target
	s.end(c)
}

// release ends what a cluster waited for at its gates.
func (s *sim) release(c *cluster) {
	if c.hold == nil {
		return
	}
	c.hold.released, c.hold.Ended = s.now, s.now
	c.spans = append(c.spans, *c.hold)
	c.hold = nil
}

// chainEffects is a cluster's objects and hooks, as the engine acts on them.
type chainEffects struct {
	*sim
	c *cluster
	// revision is the Cluster's when it was read; changed says that an object was written.
	revision uint64
	changed  bool
	// opens is how long hooks are known to hold the cluster.
	opens time.Duration
}

var _ chain.Effects = (*chainEffects)(nil)

// Apply sets the versions that differ.
func (e *chainEffects) Apply(_ context.Context, objects chain.Objects, stamp version.Version) error {
	if !objects.ControlPlane.Hold {
		if err := e.applyControlPlane(objects.ControlPlane.Version, stamp); err != nil {
			return err
		}
	}
	for i := range objects.Groups {
		g, want := e.c.groups[i+1], objects.Groups[i].Version
		if objects.Groups[i].Hold || g.template == want || want.IsZero() {
			continue
		}
		if err := e.applyPool(g, want); err != nil {
			return err
		}
	}
	return nil
}

func (e *chainEffects) applyControlPlane(want, stamp version.Version) error {
	c, cp := e.c, e.c.controlPlane()
	if cp.template == want && c.stamp == stamp {
		return nil
	}
	e.changed = true
	return e.write(func() {
		c.stamp = stamp
		if cp.template == want {
			return
		}
		c.note(e.sim, "the control plane goes from %s to %s", cp.template, want)
		if e.check != nil {
			e.check.raises(c, want)
		}
		e.setTemplate(cp, want)
		e.wakeTopology(c, e.reactGroup(cp))
	})
}

func (e *chainEffects) applyPool(g *group, want version.Version) error {
	e.changed = true
	return e.write(func() {
		g.cluster.note(e.sim, "%s goes from %s to %s", g.name, g.template, want)
		e.setTemplate(g, want)
		if e.check != nil {
			e.check.raisesPool(g)
		}
		e.wakeTopology(g.cluster, e.reactGroup(g))
	})
}

var errConflict = errors.New("the object has been modified")

// Record writes the Cluster, if nobody else has.
func (e *chainEffects) Record(_ context.Context, recorded chain.Recorded) error {
	if e.strikes(e.cfg.Faults.Conflict) {
		e.c.revision++
	}
	if e.c.revision != e.revision {
		return errConflict
	}
	return e.write(func() {
		if e.check != nil {
			e.check.recordsChain(e.c, recorded)
		}
		e.c.recorded = recorded
		e.c.revision++
		e.revision = e.c.revision
	})
}

// Call asks the extensions: the gates are at every hook, and nobody else is.
func (e *chainEffects) Call(_ context.Context, call chain.CallHook, _ chain.Decision) (chain.Reply, error) {
	if e.crashed {
		return chain.Reply{}, errCrashed
	}
	if e.strikes(e.cfg.Faults.Lost) {
		e.c.heldBy = "hooks that do not answer"
		return chain.Reply{}, fmt.Errorf("calling %s: no answer", call.Hook)
	}
	step := gate.Step{Hook: gate.Hook(call.Hook), Version: call.Step}
	if e.c.Gates == nil {
		return chain.Reply{}, nil
	}
	now, gates := e.time(), e.c.Gates(step)
	verdict := gate.Decide(step, gates, gate.Facts{}, now)
	if e.check != nil && len(verdict.Findings) == 0 {
		e.check.passes(e.c, step)
	}
	if len(verdict.Findings) == 0 {
		return chain.Reply{}, nil
	}
	e.c.heldBy = "gate " + strings.Join(verdict.Gates(), ", ")
	if !e.exact {
		e.opens = opens(gates, now).Sub(now)
	}
	return chain.Reply{RetryAfter: verdict.RetryAfter, Message: verdict.Message(step)}, nil
}

// twoWeeks is after how long gates are looked at again that nothing opens: in a simulation nobody changes them.
const twoWeeks = 14 * 24 * time.Hour

// opens is before when the gates certainly do not let a step through.
func opens(gates []gate.Gate, now time.Time) time.Time {
	at := now
	for _, g := range gates {
		if first := opensGate(g, now); first.After(at) {
			at = first
		}
	}
	return at
}

func opensGate(g gate.Gate, now time.Time) time.Time {
	if g.Problem != "" || g.NeedsApproval && !g.Approved {
		return now.Add(twoWeeks)
	}
	if len(g.Windows) == 0 {
		return now
	}
	if _, first, ok := gate.NextWindow(g.Windows, now); ok {
		return first
	}
	return now.Add(twoWeeks)
}
