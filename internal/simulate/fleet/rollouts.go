package fleet

import (
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/pkg/version"
)

// rollOut is what Cluster API's controller of a group does when something has changed. The counts are its own; rollout.go decides on them.
func (s *sim) rollOut(g *group) {
	move := s.decideMove(g)
	for range move.Create {
		if !s.guarded(g) {
			s.create(g)
		}
	}
	for range move.Delete {
		s.remove(s.takeOld(g))
	}
	for range move.Update {
		s.startUpdate(s.takeOld(g))
	}
	s.capacity(g)
	s.stall(g, 0)
	switch {
	case move == (RolloutMove{}):
		s.settle(g)
	case (s.cfg.Faults.Any() || g.isTimed()) && !g.refused:
		// Controllers look more often than there is something to do. Limits with times need that: the
		// next look finds out when the time of what begins now is over.
		s.wakeGroup(g)
		fallthrough
	default:
		s.tellTopology(g)
	}
}

// guarded reports whether the guard refuses that a machine is made for a group: where its policy keeps machines, none is made beyond those that are desired.
func (s *sim) guarded(g *group) bool {
	if !g.update.Guarded {
		return false
	}
	verdict := guard.Decide(guard.Request{
		Operation: guard.Create, Guarded: true, Policy: g.update.PolicyName, Group: guard.Group{Kind: g.kindName(), Name: g.name, Desired: g.desired, Machines: g.present()},
	})
	if !verdict.Allowed {
		g.cluster.trouble = g.name + ": " + verdict.Message + " (maxSurge above 0 has Cluster API make a machine before it asks whether one can be updated in place; set it to 0)"
		g.refused = true
	}
	return !verdict.Allowed
}

func (g *group) kindName() string {
	if g.isCP {
		return "control plane"
	}
	return string(g.kind)
}

func (s *sim) decideMove(g *group) RolloutMove {
	if !g.isCP {
		return s.scaleSets(g)
	}
	return s.engine.ControlPlane(Rollout{
		Desired: g.desired, Old: g.waiting(), Updating: g.updating, New: g.fresh, Coming: g.coming, Going: g.going,
		MaxSurge: int(g.limits.Surge), InPlace: g.update.InPlace,
	})
}

// takeOld takes the next machine that is not at the template's version.
func (s *sim) takeOld(g *group) *machine {
	if g.unordered {
		slices.SortStableFunc(g.old[g.next:], func(a, b *machine) int { return a.place.Compare(b.place) })
		g.unordered = false
	}
	m := g.old[g.next]
	g.next++
	if g.next == len(g.old) {
		g.old, g.next = g.old[:0], 0
	}
	return m
}

// create asks the provider for a machine.
func (s *sim) create(g *group) {
	m := &machine{made: g.template, state: coming, replaces: true, since: s.now}
	s.adopt(g, m)
	g.countChange(m, 1)
	t := &g.update.Timings
	s.flight(1)
	if s.check != nil {
		s.check.creates(m)
	}
	if s.uniform(forCreateFails, m.subject, 0) < t.CreateFails {
		s.schedule(gaveUp, m.id, s.sample(t.GiveUp, forGiveUp, m.subject, 0))
		return
	}
	s.schedule(created, m.id, s.sample(t.Create, forCreate, m.subject, 0))
}

// created takes a new machine whose node is Ready.
func (s *sim) created(m *machine) {
	g := m.group
	if d := &s.domains[m.domain]; d.away {
		// It gets Ready when its site is back.
		s.schedule(created, m.id, max(time.Second, d.back-s.now))
		return
	}
	g.countChange(m, -1)
	m.state, m.kubelet, m.readyAt = idle, m.made, s.now
	s.count(g, m.kubelet, 1)
	s.flight(-1)
	g.tally.Replaced++
	g.cluster.note(s, "machine %d is Ready at %s", m.id, m.kubelet)
	s.arrived(m)
	if s.check != nil {
		s.check.runs(m)
	}
	s.changedGroup(g)
}

// arrived sorts a machine that nothing happens to any more by its version.
func (s *sim) arrived(m *machine) {
	g := m.group
	if m.isOff() {
		g.old = append(g.old, m)
		g.unordered = g.update.Limits != nil && g.update.Limits.Order.IsSet()
		return
	}
	g.fresh++
}

// gaveUp has a machine that never got Ready deleted; its group makes another one.
func (s *sim) gaveUp(m *machine) {
	m.group.countChange(m, -1)
	m.group.tally.Failed++
	s.flight(-1)
	m.state = gone
	if m.made != m.group.template {
		m.group.off--
	}
	s.changedGroup(m.group)
}

// remove deletes a machine: it is drained, and then goes.
func (s *sim) remove(m *machine) {
	g := m.group
	if s.check != nil {
		s.check.deletes(m)
	}
	m.state = going
	g.countChange(m, 1)
	g.tally.Drained++
	s.flight(1)
	s.schedule(deleted, m.id, s.sample(g.update.Timings.Delete, forDelete, m.subject, 0))
}

func (s *sim) deleted(m *machine) {
	g := m.group
	g.countChange(m, -1)
	m.state = gone
	s.count(g, m.kubelet, -1)
	if m.isOff() {
		g.off--
	}
	m.progress = nil
	s.flight(-1)
	if s.check != nil {
		s.check.leaves(m)
	}
	s.changedGroup(g)
}

// startUpdate moves a machine to the template: its spec is the template's from now on, and the engine is asked to update it.
func (s *sim) startUpdate(m *machine) {
	g := m.group
	if s.check != nil {
		s.check.moves(m)
	}
	m.state, m.made, m.decision = updating, g.template, g.decision
	m.replaces = false
	g.countChange(m, 1)
	s.poll(m, s.react(g, m.subject))
}

// react is how long a controller takes to notice a change.
func (s *sim) react(g *group, subject uint64) time.Duration {
	return s.sample(g.update.Timings.React, forReact, subject, uint64(s.now)) //nolint:gosec // any number will do
}

// changedGroup tells all who watch that machines of a group have changed.
func (s *sim) changedGroup(g *group) {
	s.capacity(g)
	s.tellTopology(g)
	s.wakeGroup(g)
}

// tellTopology wakes the topology controller where what it reads of a group has changed.
func (s *sim) tellTopology(g *group) {
	if s.show(g) {
		s.wakeTopology(g.cluster, s.reactGroup(g))
	}
}

// reactGroup is how long the controllers that watch a group take to notice a change.
func (s *sim) reactGroup(g *group) time.Duration { return s.react(g, uint64(g.id)) }

// wakeGroup has the controllers of a group act, one after another.
func (s *sim) wakeGroup(g *group) { s.wakeGroupIn(g, time.Duration(g.hops())*s.reactGroup(g)) }

func (s *sim) wakeGroupIn(g *group, after time.Duration) {
	s.wake(&g.due, reconcileGroup, int32(g.id), after) //nolint:gosec // bounded by memory
}

// hops is how many controllers have to act until something happens to a machine.
func (g *group) hops() int {
	switch {
	case g.isCP:
		return ControlPlaneHops
	case g.update.InPlace:
		return MoveHops
	default:
		return PoolHops
	}
}

func (s *sim) wakeTopology(c *cluster, after time.Duration) {
	s.wake(&c.due, reconcileTopology, int32(c.index), after) //nolint:gosec // bounded by memory
}

// wake puts an object into a controller's queue, if it does not stand there for an earlier time.
func (s *sim) wake(d *due, k kind, id int32, after time.Duration) {
	at := s.now + after
	if d.pending && d.at <= at {
		return
	}
	d.pending, d.at = true, at
	d.gen++
	s.queue.push(event{at: at, kind: k, id: id, gen: d.gen})
}

// ran reports whether an event is the one that its object waits for, and takes it.
func (d *due) ran(e event) bool {
	if !d.pending || d.gen != e.gen {
		return false
	}
	d.pending = false
	return true
}

func (s *sim) schedule(k kind, id int32, after time.Duration) {
	s.queue.push(event{at: s.now + after, kind: k, id: id})
}

// setKubelet is what an updater does to a node.
func (s *sim) setKubelet(m *machine, v version.Version) {
	g, wasOff := m.group, m.isOff()
	s.count(g, m.kubelet, -1)
	s.count(g, v, 1)
	m.kubelet = v
	if wasOff && !m.isOff() {
		g.off--
	}
	if s.check != nil {
		s.check.runs(m)
	}
	s.tellTopology(g)
}
