package fleet

import (
	"iter"
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// sets are the MachineSets of a worker group: the one of its template, and all earlier ones as one.
type sets struct {
	// replicas and earlierReplicas are their spec.replicas.
	replicas, earlierReplicas int
	// earlier counts the machines in change that were made for another version than the template's.
	earlier changing
	// exceeds says that the rules gave up a machine beyond maxUnavailable, because they see no other
	// way to go on.
	exceeds bool
}

// changing counts machines in change.
type changing struct{ updating, coming, going int }

func (c *changing) count(s state, by int) {
	switch s {
	case updating:
		c.updating += by
	case coming:
		c.coming += by
	case going:
		c.going += by
	case idle, gone:
	}
}

// countChange counts a machine that begins or ends to be in its state.
func (g *group) countChange(m *machine, by int) {
	g.count(m.state, by)
	if m.made != g.template {
		g.sets.earlier.count(m.state, by)
	}
}

// The names of the MachineSets.
const (
	newSet = "new"
	oldSet = "old"
)

// rollout returns what Cluster API's rules read of a worker group. It is valid until the next call.
//
// Note: no machine is made at an earlier version, unlike by Cluster API where a machine of an earlier
// MachineSet is deleted by somebody. So that MachineSet asks for no more machines than it has.
func (s *sim) rollout(g *group) pool.Rollout {
	e, waiting := g.sets.earlier, g.waiting()
	replicas := int32Of(g.sets.replicas)
	earlier := int32Of(min(g.sets.earlierReplicas, waiting+e.updating+e.coming))
	r := pool.Rollout{
		Budget: g.limits, InPlaceUpdates: g.update.InPlace,
		New: pool.Sizes{Name: newSet, Replicas: replicas, Target: replicas, Counts: pool.Counts{
			Machines:  int32Of(g.fresh + g.moving() - e.updating - e.coming - e.going),
			Available: int32Of(g.fresh), UpToDate: int32Of(g.fresh + g.coming - e.coming),
		}},
		Old: s.earlierSet[:],
	}
	// The rules change copies only, so one slice serves all groups.
	r.Old[0] = pool.Sizes{Name: oldSet, Replicas: earlier, Target: earlier, Eligible: true, Counts: pool.Counts{
		Machines: int32Of(waiting + e.updating + e.coming + e.going), Available: int32Of(waiting),
	}}
	if g.updating > 0 {
		r.Updating = someUpdating
	}
	return r
}

// someUpdating stands for the names of all machines that are updated: the rules ask whether there is
// one.
var someUpdating = []string{"updating"} //nolint:gochecknoglobals // Never changed.

// decidePool is what the controller of a MachineDeployment decides. Updaters cover every machine of a
// group that is updated in place.
func decidePool(r pool.Rollout) pool.Rollout { return r.RollingUpdate(covered) }

var covered = map[string]bool{oldSet: true} //nolint:gochecknoglobals // Never changed.

// scaleSets does what the controller of a MachineDeployment does, and returns what those of its
// MachineSets do then. Machines that move count as replicas of their new MachineSet at once.
func (s *sim) scaleSets(g *group) RolloutMove {
	r := s.limited(g, s.engine.Pool(s.rollout(g)))
	newest, old := r.New, r.Old[0]
	// Machines in deletion leave first. Those that are updated to an earlier version stay until they
	// are.
	leave := int(old.Counts.Machines-old.Target) - g.sets.earlier.going
	leave = max(0, min(leave, g.waiting()))
	move := RolloutMove{Create: max(0, int(newest.Target-newest.Counts.Machines))}
	g.sets.replicas, g.sets.earlierReplicas = int(newest.Target), int(old.Target)
	g.sets.exceeds = g.sets.exceeds || slices.ContainsFunc(newest.Notes, isDeadlock)
	if old.MoveTo == "" {
		move.Delete = leave
		return move
	}
	move.Update = leave
	g.sets.replicas += leave
	return move
}

// limited applies the limits of the UpdatePolicy to a plan.
func (s *sim) limited(g *group, r pool.Rollout) pool.Rollout {
	if g.update.Limits == nil {
		return r
	}
	r, allowance, p := r.Within(*g.update.Limits, s.observe(g), g.update.Guarded)
	g.op.limit(allowance.Reason, s.now)
	g.heldBy = ""
	blocked := allowance.More == 0 && allowance.Reason.Blocks()
	if blocked {
		g.heldBy = g.name + ": " + allowance.Message
	}
	g.op.wait(blocked && allowance.Reason.StopsDeadline(), s.now)
	if p.Touched < p.Replicas && !p.Wake.IsZero() {
		s.wakeGroupIn(g, p.Wake.Sub(s.time()))
	}
	return r
}

// observe returns what the limits read of a group.
func (s *sim) observe(g *group) pool.Observation {
	o := s.observeMachines(g)
	if g.op != nil && g.op.canaries != nil {
		e := g.sets.earlier
		alive := g.fresh + g.updating - e.updating + g.coming - e.coming
		o.Progress.Recall(*g.op.canaries, g.op.canaries.Machines, int32Of(alive))
	}
	return o
}

// observeMachines returns what the machines of a group tell the limits.
func (s *sim) observeMachines(g *group) pool.Observation {
	l, failed := g.update.Limits, g.op != nil && g.op.failed > 0
	if !g.isTimed() && !failed && !l.Order.OneAtATime {
		// No machine differs from others in a way that counts.
		return pool.Observation{
			Progress: pool.Progress{
				Done: int32Of(g.fresh), Updated: int32Of(g.fresh), Updating: int32Of(g.updating),
			},
			UpdatingOld: int32Of(g.sets.earlier.updating),
		}
	}
	var began time.Time
	if g.op != nil && !g.op.waits {
		began = s.cfg.Begin.Add(g.op.counts)
	}
	return l.Observe(s.members(g), began, s.time())
}

// isTimed reports whether the limits of a group depend on how long its machines take.
func (g *group) isTimed() bool {
	l := g.update.Limits
	return l != nil && (l.Soak > 0 || l.MachineDeadline > 0 || l.GroupDeadline > 0)
}

// members are the machines of a group.
func (s *sim) members(g *group) iter.Seq[pool.Member] {
	return func(yield func(pool.Member) bool) {
		for _, m := range g.machines {
			if m.state != gone && !yield(s.member(m)) {
				return
			}
		}
	}
}

// member describes a machine. One that rests as the template asks, or waits, needs no name.
func (s *sim) member(m *machine) pool.Member {
	waits := m.state == idle && m.isOff()
	v := pool.Member{
		Set: oldSet, New: m.made == m.group.template && !waits, Deleting: m.state == going,
		Updating: m.state == updating, Failed: m.state == updating && m.failed, Place: m.place,
		Began: s.changingSince(m),
	}
	if v.New {
		v.Set, v.Available, v.Moved = newSet, m.state == idle, !m.replaces
	}
	if v.Available && m.replaces {
		v.Soaks = s.cfg.Begin.Add(m.readyAt)
	}
	if m.state != idle || !v.Soaks.IsZero() {
		v.Name = m.name()
	}
	return v
}

// changingSince is since when a machine is being created or updated; zero if neither, if its update
// has not begun, and while it soaks.
func (s *sim) changingSince(m *machine) time.Time {
	switch p := m.progress; {
	case m.state == idle:
	case m.state != updating:
		return s.cfg.Begin.Add(m.since)
	case p != nil && p.Phase != inplace.Soaking:
		return p.Began
	}
	return time.Time{}
}

// place returns the place of a machine in the order of its policy. The machines of a group have
// labels in turn. Several of them were set on machines, so a machine that replaces another one has
// none. A single one is the template's.
func (s *sim) place(g *group, m *machine, replaces bool) policy.Place {
	u := g.update
	if u.Limits == nil || !u.Limits.Order.IsSet() {
		return policy.Place{}
	}
	var labels map[string]string
	if n := len(u.Labels); n == 1 || n > 1 && !replaces {
		labels = u.Labels[g.made%uint64(n)]
	}
	return u.Limits.Order.Place(labels, s.domains[m.domain].name)
}

func isDeadlock(n pool.Note) bool { return n.Reason == pool.ReasonDeadlock }

func int32Of(n int) int32 { return int32(n) } //nolint:gosec // at most as many as a fleet has
