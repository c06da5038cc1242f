package fleet

import (
	"math"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
)

// canary is what policy.Policy.Alone depends on, for the machines of a group.
type canary struct {
	// running machines are in flight and have not failed finally. settled ones have ended the update to
	// the group's template.
	running, settled int
	// queued machines are in scope.waiting.
	queued int
}

// holdsBack reports whether no other machine of the group begins until one has ended its update.
func (g *group) holdsBack() bool {
	most := g.update.Policy.Alone
	return !g.isCP && most > 0 && g.canary.settled == 0 && g.canary.running >= most
}

// countCanary changes how many machines of a group run and have settled its update. A machine that
// leaves is counted before its slot is free, so that those of its group are not passed over.
func (s *sim) countCanary(g *group, running, settled int) {
	held := g.holdsBack()
	g.canary.running += running
	g.canary.settled += settled
	g.op.holdBack(g.holdsBack(), s.now)
	if held && !g.holdsBack() {
		s.freed(g.scope)
	}
}

// settles is 1 for a machine whose update, when it ends, settles that of its group, and 0 for others.
func (m *machine) settles() int {
	if m.decision == m.group.decision {
		return 1
	}
	return 0
}

// holdBack notes that a group is or is not held back by its canary from now on.
func (o *operation) holdBack(held bool, now time.Duration) {
	if o == nil {
		return
	}
	if o.held {
		o.holding += now - o.heldSince
	}
	o.held, o.heldSince = held, now
}

// beginInGroup calls decide with others and the machines of the group.
func (e *machineEffects) beginInGroup(
	others inplace.Others, decide func(inplace.Others) (bool, error),
) (began bool, err error) {
	g := e.m.group
	if others.Settled = g.update.Policy.Alone == 0 || g.canary.settled > 0; others.Settled {
		return decide(others)
	}
	running := func() (inplace.Seen[int32], error) {
		seen := inplace.Seen[int32]{Noted: map[int32]string{}}
		for id, update := range e.seen(g.scope).Noted {
			m := e.machines[id]
			if failed := m.progress != nil && m.progress.Phase == inplace.Failed; m.group == g && !failed {
				seen.Noted[id] = update
			}
		}
		return seen, nil
	}
	err = e.slots.Begin(g.canaryScope(), e.m.id, e.m.freshID(), e.time(), running, func(n int) (bool, error) {
		others.Group = n
		began, err = decide(others)
		return began, err
	})
	return began, err
}

func (g *group) canaryScope() string { return g.scope.name + "/" + g.name }

// endSlot notes that an update of the machine is over.
func (e *machineEffects) endSlot(id string) {
	g := e.m.group
	e.slots.End(g.scope.name, e.m.id, id, e.time())
	e.slots.End(g.canaryScope(), e.m.id, id, e.time())
}

// free is how many more machines may be in flight.
func (c *scope) free() int {
	if c.max == 0 {
		return math.MaxInt
	}
	return c.max - len(c.inFlight)
}

// canBegin reports whether a machine waits whose group is not held back.
func (c *scope) canBegin() bool {
	for _, g := range c.groups {
		if g.canary.queued > 0 && !g.holdsBack() {
			return true
		}
	}
	return false
}
