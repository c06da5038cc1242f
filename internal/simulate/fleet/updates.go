package fleet

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
)

// pollUpdater is when the simulated updaters ask to be asked again at the latest.
const pollUpdater = 15 * time.Second

// pollRefused is when Cluster API asks again about a machine that waits for a person.
const pollRefused = 5 * time.Minute

// retryAfterError is when Cluster API asks again after a hook that failed.
const retryAfterError = time.Second

// poll has Cluster API ask the engine about a machine after a while, and not at another time.
func (s *sim) poll(m *machine, after time.Duration) {
	m.gen++
	s.queue.push(event{at: s.now + after, kind: updateMachine, id: m.id, gen: m.gen})
}

// updateMachine is one call of the hook UpdateMachine, which the engine serves.
func (s *sim) updateMachine(ctx context.Context, m *machine) {
	s.stopSkipping(m)
	if m.queued {
		m.queued = false
		m.group.op.queue(-1, s.now)
	}
	if m.promised {
		m.promised = false
		m.group.scope.promised--
		// Where it does not begin, another one can.
		defer s.freed(m.group.scope)
	}
	if m.state != updating {
		return
	}
	s.act(m)
	facts := s.readMachine(m)
	reply, err := s.engine.Machine(ctx, facts, &machineEffects{sim: s, m: m})
	if m.state != updating {
		return // It is being remediated.
	}
	switch {
	case err != nil:
		s.poll(m, retryAfterError)
	case reply.Refused != nil:
		s.refused(m, *reply.Refused)
	case reply.Done:
		s.updated(m)
	default:
		s.askAgain(m, reply)
	}
}

// time is what the engine's clock says.
func (s *sim) time() time.Time { return s.cfg.Begin.Add(s.now) }

// readMachine reads what is decided on, as the engine's hook does.
func (s *sim) readMachine(m *machine) inplace.Facts {
	g := m.group
	f := inplace.Facts{
		Now: s.time(), Desired: m.made, Target: m.decision.Target, Decision: m.decision, Progress: m.progress, Last: m.last,
		Policy: g.update.Policy, PolicyName: g.update.PolicyName, Node: s.node(m), Retry: m.retry,
	}
	if m.progress == nil {
		f.FreshID = m.freshID()
	}
	return f
}

// freshID names the machine's next update.
func (m *machine) freshID() string {
	return "u" + strconv.Itoa(int(m.id)) + "-" + strconv.FormatUint(m.updates+1, 10)
}

var errAway = errors.New("the workload cluster cannot be reached")

// node looks a machine's node up.
func (s *sim) node(m *machine) inplace.Node {
	if s.domains[m.domain].away {
		return inplace.Node{Unknown: errAway.Error()}
	}
	n := inplace.Node{Exists: !m.kubelet.IsZero(), Ready: s.now >= m.readyAt, ReadySince: s.cfg.Begin.Add(m.readyAt), Kubelet: m.kubelet, Unschedulable: m.cordoned}
	if !n.Ready {
		n.NotReady = "the kubelet is starting"
	}
	return n
}

// act lets an updater's work take effect that has ended by now.
func (s *sim) act(m *machine) {
	w := &m.work
	if !w.begun || w.ended || w.hangs || s.now < w.ends {
		return
	}
	w.ended = true
	if w.fails || !w.sets || m.kubelet == m.made {
		return
	}
	m.readyAt = w.ends + s.sample(m.group.update.Timings.Settle, forSettle, m.subject, m.updates)
	s.setKubelet(m, m.made)
}

// updated is what Cluster API does when it is told that an update is over.
func (s *sim) updated(m *machine) {
	g := m.group
	g.countChange(m, -1)
	m.state = idle
	s.stall(g, 0)
	s.arrived(m)
	s.changedGroup(g)
}

// refused leaves the machine until somebody acts.
func (s *sim) refused(m *machine, r inplace.Refuse) {
	g := m.group
	if s.cfg.Faults.Any() {
		// Cluster API asks on, and gets the same answer.
		s.poll(m, pollRefused)
	}
	if m.failed {
		return
	}
	m.failed = true
	s.stall(g, 1)
	g.cluster.trouble = "machine " + m.name() + ": " + r.Message
	s.lookAtLimits(g)
	if r.Reason != inplace.ReasonFailed || g.update.Timings.Attend.IsZero() {
		return
	}
	s.schedule(attended, m.id, s.sample(g.update.Timings.Attend, forAttend, m.subject, uint64(m.progress.Operations))) //nolint:gosec // counts attempts
}

// attended is a person who has a failed update retried.
func (s *sim) attended(m *machine) {
	if m.state == going || m.state == gone {
		s.retryCanary(m)
		return
	}
	if m.state != updating || m.progress == nil {
		return
	}
	m.retry, m.failed = true, false
	s.stall(m.group, -1)
	m.group.cluster.trouble = ""
	s.lookAtLimits(m.group)
	s.poll(m, 0)
}

// lookAtLimits has the controller of a group look again at limits that count failed machines.
func (s *sim) lookAtLimits(g *group) {
	if g.update.Limits != nil {
		s.wakeGroup(g)
	}
}

// askAgain has the machine asked about when the engine said. Calls in between in which nothing can be otherwise are skipped: Decide is a function of
// what it reads, so their answers are known. What they would cost is kept account of.
func (s *sim) askAgain(m *machine, r inplace.Reply) {
	if r.Wait.Reason == inplace.ReasonQueued {
		m.queued = true
		m.group.op.queue(1, s.now)
		s.enqueue(m)
		return
	}
	if s.exact || r.Wait.Reason == "" {
		s.poll(m, r.RetryAfter)
		return
	}
	until, precise := s.nextChange(m, r.Wait)
	if until <= s.now+r.RetryAfter {
		s.poll(m, r.RetryAfter)
		return
	}
	after := until - s.now
	if late := after % r.RetryAfter; late > 0 && !precise {
		after += r.RetryAfter - late
	}
	s.skip(m, r.RetryAfter)
	s.poll(m, after)
}

// nextChange is the earliest time at which an answer about the machine may be another one. It is precise where the engine itself asks for that
// time, however often it has to be asked before.
func (s *sim) nextChange(m *machine, w inplace.Wait) (at time.Duration, precise bool) {
	p := m.progress
	if p == nil {
		return s.now, false
	}
	// An attempt is over when more time than that has gone.
	timeout := p.Started.Sub(s.cfg.Begin) + m.group.update.Policy.AttemptTimeout + time.Nanosecond
	switch w.Reason {
	case inplace.ReasonBackingOff:
		return s.now + w.After, true
	case inplace.ReasonSoaking:
		if s.now >= m.readyAt {
			return s.now + w.After, true
		}
		return m.readyAt, false
	case inplace.ReasonDraining:
		return m.drainEnds, false
	case inplace.ReasonUpdating:
		if m.work.hangs {
			return timeout, false
		}
		// It is asked when it says that it will be done, and in every interval before.
		return s.now + min(roundUp(m.work.ends-s.now, time.Second), roundUp(timeout-s.now, pollUpdater)), true
	case inplace.ReasonVerifying:
		return min(m.readyAt, timeout), false
	case inplace.ReasonQueued, inplace.ReasonUpdaterUnknown, inplace.ReasonNodeUnknown, inplace.ReasonNoDecision, inplace.ReasonDesiredChanged, inplace.ReasonTransition,
		inplace.ReasonUnknownPhase, inplace.ReasonPaused, inplace.ReasonFailed:
	}
	return s.now, false
}

// roundUp is the multiple of a unit that is not below d.
func roundUp(d, unit time.Duration) time.Duration { return (d + unit - 1).Truncate(unit) }

// skip notes that calls about a machine are skipped, one in each interval.
func (s *sim) skip(m *machine, interval time.Duration) {
	m.skipping = interval
	s.budget.poll(s.now, 1, interval)
}

func (s *sim) stopSkipping(m *machine) {
	if m.skipping > 0 {
		s.budget.poll(s.now, -1, m.skipping)
		m.skipping = 0
	}
}

// enqueue has a machine wait for others. When it asks again is up to the engine's Line. Until a slot is free, and its group's canary has ended, it asks in
// vain, which costs no request, so those calls are skipped.
func (s *sim) enqueue(m *machine) {
	scope := m.group.scope
	s.askInVain(scope)
	late := time.Duration(s.uniform(forAsk, m.subject, m.updates) * float64(latest))
	after := scope.line.Next(s.time(), max(1, scope.max)) + late
	if s.exact {
		s.poll(m, after)
		return
	}
	scope.waiting.push(waiter{at: s.now + after, late: late, id: m.id})
	m.group.canary.queued++
	m.gen++
	s.freed(scope)
}

// askInVain has those ask whose time has come. None could begin.
func (s *sim) askInVain(scope *scope) {
	for scope.waiting.n > 0 && scope.waiting.first().at < s.now {
		w := scope.waiting.pop()
		w.at += scope.line.Next(s.cfg.Begin.Add(w.at), max(1, scope.max)) + w.late
		scope.waiting.push(w)
	}
}

// freed lets those ask that find a slot free and are not held back, as many as there are.
func (s *sim) freed(scope *scope) {
	s.askInVain(scope)
	for scope.promised < scope.free() && scope.canBegin() {
		w := scope.waiting.take(func(w waiter) bool { return !s.machines[w.id].group.holdsBack() })
		m := s.machines[w.id]
		m.group.canary.queued--
		m.promised = true
		scope.promised++
		s.poll(m, w.at-s.now)
	}
}

// seen is what the engine's cache shows of a scope.
func (s *sim) seen(scope *scope) inplace.Seen[int32] {
	if s.cfg.Faults.Stale == 0 {
		return inplace.Seen[int32]{Noted: scope.inFlight}
	}
	scope.catchUp(s.now - s.cfg.Faults.Lag)
	return inplace.Seen[int32]{Noted: scope.shown}
}

// catchUp has the cache show what happened until a time.
func (c *scope) catchUp(until time.Duration) {
	for len(c.pending) > 0 && c.pending[0].at <= until {
		change := c.pending[0]
		c.pending = c.pending[1:]
		if change.update != "" {
			c.shown[change.id] = change.update
		} else {
			delete(c.shown, change.id)
		}
	}
}
