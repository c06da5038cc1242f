package fleet

import (
	"slices"

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
	p := pool.Progress{Done: int32Of(g.fresh)}
	if g.op != nil && g.op.failed > 0 {
		p.Failed = g.failedUpdates()
	}
	r, allowance := r.Within(*g.update.Limits, p, int32Of(g.sets.earlier.updating))
	g.op.limit(allowance.Reason, s.now)
	g.heldBy = ""
	stays := allowance.Reason.NeedsPerson() || allowance.Reason == pool.ReasonPartition
	if stays && allowance.More == 0 {
		g.heldBy = g.name + ": " + allowance.Message
	}
	return r
}

// failedUpdates names the machines whose update to the template failed finally, sorted.
func (g *group) failedUpdates() []string {
	var names []string
	for _, m := range g.machines {
		if m.failed && m.state == updating && m.made == g.template {
			names = append(names, m.name())
		}
	}
	slices.Sort(names)
	return names
}

func isDeadlock(n pool.Note) bool { return n.Reason == pool.ReasonDeadlock }

func int32Of(n int) int32 { return int32(n) } //nolint:gosec // at most as many as a fleet has
