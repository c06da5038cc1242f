package explore

import "slices"

// members is a set of groups, by their places.
type members uint8

func (s members) has(i int) bool     { return s&(1<<i) != 0 }
func (s members) with(i int) members { return s | 1<<i }

// lackedOf returns what is recorded of groups that lack a machine each.
func (m *model) lackedOf(s members) map[string]int32 {
	if s == 0 {
		return nil
	}
	lacked := map[string]int32{}
	for i, g := range m.Groups {
		if s.has(i) {
			lacked[g.Name] = 1
		}
	}
	return lacked
}

// membersOf reads what lackedOf returns.
func (m *model) membersOf(lacked map[string]int32) members {
	var s members
	for i, g := range m.Groups {
		if lacked[g.Name] > 0 {
			s = s.with(i)
		}
	}
	return s
}

// unproven reports whether the engine reads no proof that BeforeClusterUpgrade passed for a target:
// the other engine records none.
func (r *run) unproven(to rung) bool {
	return r.beyond(to, r.w.ledger.allowed) || !r.asRead.proven() || r.beyond(to, r.asRead.chainTarget)
}

// beyond reports whether an upgrade that may go up to allowed may not go to a version.
func (r *run) beyond(to, allowed rung) bool {
	return allowed == 0 || to != allowed && !r.older(to, allowed)
}

// reached reports whether a version is a target, or later. Nothing reaches a target that is unknown.
func (m *model) reached(v, target rung) bool {
	return target != 0 && (v == target || m.older(target, v))
}

// checkEnded checks that a new upgrade does not begin before AfterClusterUpgrade has passed for the
// one that is finished.
func (r *run) checkEnded(what string) {
	l := &r.w.ledger
	owed := l.after == due && r.finished(r.w) && r.finished(&r.asRead)
	r.checkUnforgiven(!owed, "%v, and AfterClusterUpgrade for the upgrade to %v has not passed", what, l.allowed)
}

// finished reports whether an upgrade is where it may go, with all its objects and the hooks about
// its last step.
func (m *model) finished(w *world) bool {
	l := &w.ledger
	if !l.began || !m.reached(w.cp.spec, l.allowed) || !w.over() || w.cp.lags {
		return false
	}
	return !slices.ContainsFunc(w.groups[:], func(g group) bool {
		return g.counts() && (g.lags || g.version != w.cp.spec || g.oldest != w.cp.spec)
	})
}

// cancelled are the hooks of a workers step that was announced, and that the plan does not have any more.
func (r *run) cancelled(old *world) hooks {
	now, l := r.w, &r.w.ledger
	both := old.pending.has(beforeWorkers) && old.pending.has(afterWorkers) &&
		!now.pending.has(beforeWorkers) && !now.pending.has(afterWorkers)
	if r.stock || !both {
		return 0
	}
	r.check(now.cp.spec != r.asRead.target, "the step of workers to %v, the target, is cancelled", now.cp.spec)
	r.checkNoneMoves("the step of workers is cancelled")
	l.workersBefore, l.workersAfter, l.moved, l.turn = notDue, notDue, false, 0
	return hooks(0).with(beforeWorkers).with(afterWorkers)
}
