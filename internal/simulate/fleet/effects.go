package fleet

import (
	"context"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
)

// machineEffects is one machine and its node, as the engine acts on them.
type machineEffects struct {
	*sim
	m *machine
}

var _ inplace.Effects = (*machineEffects)(nil)

// Begin counts the machines of the scope and of the group that are in flight.
func (e *machineEffects) Begin(
	_ context.Context, decide func(inplace.Others) (bool, error),
) (*inplace.Reply, error) {
	scope := e.m.group.scope
	if e.m.group.isCP || scope.max == 0 && e.m.group.update.Policy.Alone == 0 {
		_, err := decide(inplace.Others{})
		return nil, err
	}
	seen := func() (inplace.Seen[int32], error) { return e.seen(scope), nil }
	return nil, e.slots.Begin(scope.name, e.m.id, e.m.freshID(), e.time(), seen, func(n int) (bool, error) {
		return e.beginInGroup(inplace.Others{InFlight: n}, decide)
	})
}

// Save records progress.
func (e *machineEffects) Save(_ context.Context, before, after *inplace.Progress) error {
	return e.write(func() {
		m, g := e.m, e.m.group
		m.progress = after
		if before == nil {
			m.updates++
			e.enter(m)
			g.begun++
			e.capacity(g)
		}
		if before != nil && (after.Phase == inplace.BackingOff || after.Phase == inplace.Failed) && before.Phase != after.Phase {
			g.tally.Failed++
		}
		g.cluster.note(e.sim, "machine %d: %s", m.id, after.Phase)
		if e.check != nil {
			e.check.recorded(m, before, after)
		}
		if before != nil && before.Phase == inplace.Failed {
			m.retry = false
			e.countCanary(g, 1, -m.settles())
		}
		if after.Phase == inplace.Failed {
			e.fail(m, after)
		}
	})
}

// fail is what becomes of a machine whose update failed finally.
func (s *sim) fail(m *machine, p *inplace.Progress) {
	m.group.tally.GaveUp++
	if !m.group.update.Policy.Remediate || p.Unanswered {
		s.countCanary(m.group, -1, m.settles())
		return
	}
	// Its group deletes it, and makes another one.
	s.recordCanary(m, p)
	s.countCanary(m.group, -1, 0)
	s.leave(m)
	m.group.countChange(m, -1)
	s.remove(m)
	s.changedGroup(m.group)
}

// enter and leave keep account of who is in flight.
func (s *sim) enter(m *machine) {
	scope := m.group.scope
	s.flight(1)
	if m.group.isCP {
		return
	}
	scope.inFlight[m.id] = m.progress.ID
	scope.pending = append(scope.pending, change{at: s.now, id: m.id, update: m.progress.ID})
	if s.cfg.Faults.Stale == 0 {
		scope.pending = scope.pending[:0]
	}
	if s.check != nil {
		s.check.begins(m)
	}
	s.countCanary(m.group, 1, 0)
}

func (s *sim) leave(m *machine) {
	scope := m.group.scope
	s.flight(-1)
	m.group.begun--
	if m.group.isCP {
		return
	}
	delete(scope.inFlight, m.id)
	if s.cfg.Faults.Stale > 0 {
		scope.pending = append(scope.pending, change{at: s.now, id: m.id})
	}
	s.freed(scope)
}

// Look returns the time and the node.
func (e *machineEffects) Look(context.Context) (time.Time, inplace.Node) {
	e.act(e.m)
	return e.time(), e.node(e.m)
}

// Drain cordons the node and drains it.
func (e *machineEffects) Drain(context.Context, time.Time) (inplace.DrainState, error) {
	m := e.m
	if e.domains[m.domain].away {
		return inplace.DrainState{Message: errAway.Error()}, nil
	}
	if m.drained {
		return inplace.DrainState{Done: true}, nil
	}
	if !m.draining {
		m.draining, m.cordoned = true, true
		m.drainEnds = e.now + e.sample(m.group.update.Timings.Drain, forDrain, m.subject, m.updates)
		m.group.tally.Drained++
		if e.check != nil {
			e.check.drains(m)
		}
	}
	if e.now < m.drainEnds {
		return inplace.DrainState{Message: "evicting pods"}, nil
	}
	m.draining, m.drained = false, true
	return inplace.DrainState{Done: true}, nil
}

// CanBegin is answered with yes: a simulated updater fails only once it works.
func (e *machineEffects) CanBegin(context.Context, inplace.CanBegin) (inplace.Readiness, error) {
	return inplace.Readiness{}, nil
}

// Call asks the machine's updater.
func (e *machineEffects) Call(_ context.Context, call inplace.Call) (inplace.Answer, error) {
	m := e.m
	if e.crashed || e.domains[m.domain].away {
		return inplace.Answer{Message: errAway.Error()}, nil
	}
	if m.work.operation != call.Operation {
		e.startWork(m, call)
	}
	if e.strikes(e.cfg.Faults.Lost) {
		return inplace.Answer{Message: "no answer"}, nil
	}
	e.act(m)
	switch w := &m.work; {
	case !w.ended:
		return inplace.Answer{Outcome: inplace.InProgress, Message: "at work", RetryAfter: w.askAgain(e.now)}, nil
	case w.fails:
		return inplace.Answer{Outcome: inplace.Fails, Message: "the simulated updater failed"}, nil
	default:
		return inplace.Answer{Outcome: inplace.Finishes}, nil
	}
}

// askAgain is when the updater wants to be asked again: when it will be done, in whole seconds as Cluster API counts, but not later than it can tell.
func (w *work) askAgain(now time.Duration) time.Duration {
	if w.hangs {
		return pollUpdater
	}
	return min(max(roundUp(w.ends-now, time.Second), time.Second), pollUpdater)
}

// startWork has the updater begin an operation that it does not know yet.
func (s *sim) startWork(m *machine, call inplace.Call) {
	t := &m.group.update.Timings
	d, ok := t.Updaters[call.Step.Updater]
	if !ok {
		d = t.Updaters[""]
	}
	n := m.updates<<16 | m.operations()
	if s.check != nil {
		s.check.calls(m, call)
	}
	m.work = work{
		operation: call.Operation, begun: true, sets: call.Step.SetsVersion, ends: s.now + s.sample(d, forUpdater, m.subject, n),
		fails: s.uniform(forUpdateFails, m.subject, n) < t.UpdateFails, hangs: s.uniform(forUpdateHangs, m.subject, n) < t.UpdateHangs,
	}
}

// operations counts the attempts of the update under way.
func (m *machine) operations() uint64 {
	if m.progress == nil {
		return 0
	}
	return uint64(m.progress.Operations) //nolint:gosec // a count
}

// Uncordon makes the node schedulable.
func (e *machineEffects) Uncordon(context.Context) error {
	if e.crashed {
		return errCrashed
	}
	if e.domains[e.m.domain].away {
		return errAway
	}
	if e.check != nil {
		e.check.uncordons(e.m)
	}
	e.m.cordoned, e.m.drained = false, false
	return nil
}

// DisableScaleDown does nothing: no autoscaler is simulated.
func (e *machineEffects) DisableScaleDown(context.Context) {}

// EnableScaleDown does nothing.
func (e *machineEffects) EnableScaleDown(context.Context) error { return nil }

// Finish records the end of an update.
func (e *machineEffects) Finish(_ context.Context, _ *inplace.Progress, end inplace.Finish) error {
	err := e.write(func() {
		m := e.m
		if e.check != nil {
			e.check.finishes(m)
		}
		if m.progress != nil {
			e.countCanary(m.group, -1, m.settles())
			e.leave(m)
			m.group.tally.Updated++
		}
		summary := end.Summary
		m.progress, m.last = nil, &summary
		m.group.cluster.note(e.sim, "machine %d: updated to %s", m.id, summary.To)
	})
	if err == nil {
		e.endSlot(end.Summary.ID)
	}
	return err
}

// Abandon is not simulated: nobody gives updates up here.
func (e *machineEffects) Abandon(context.Context, inplace.AbandonUpdate) error { return nil }

// Complete lets go of the machine's slot.
func (e *machineEffects) Complete(context.Context) {
	e.endSlot(e.m.last.ID)
}
