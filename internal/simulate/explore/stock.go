package explore

import (
	"slices"

	"github.com/windlass-dev/windlass/pkg/plan"
)

// otherEngine is a model of what Cluster API's own topology controller does in one reconcile, as of v1.14, in its order: hooks and
// the control plane's version first, then AfterClusterUpgrade, then the control plane object, then what hangs on its new version, then the
// Cluster, then groups. It keeps no intent and no stamp: what it applies does not have ours, so ours goes.
type otherEngine struct {
	*run
	plan plan.Plan
	// held are the pending hooks as that engine holds them in memory; it writes them again at its end.
	held hooks
	// waits: the control plane is not written in this reconcile. starts: it begins a step. forWorkers: it waits for workers.
	waits, starts, forWorkers bool
	// blocked says that AfterControlPlaneUpgrade or BeforeWorkersUpgrade is blocking.
	blocked bool
	next    rung
}

func (r *run) otherEngine() {
	w := r.w
	if w.paused || w.deleting || w.sourceDown {
		return
	}
	e := &otherEngine{run: r, held: w.pending, next: w.cp.spec, waits: w.cp.spec != w.target}
	var err error
	e.plan, err = plan.Compute(plan.Request{
		Inventory: e.inventory(), Target: r.version(w.target), Source: r.source(w), Policy: plan.Policy{Skew: r.Skew, Workers: plan.WorkersShared},
	})
	if err != nil {
		r.say("Cluster API's engine: no plan")
		return
	}
	r.say("Cluster API's engine acts")
	if !e.decideControlPlane() || r.dead {
		return
	}
	step := rung(0)
	if e.held.has(afterCluster) {
		step = e.next
	}
	asComputed := e.held
	moves := e.decideGroups()
	if !e.afterUpgrade(moves) {
		return
	}
	e.writeAll(step, asComputed, moves)
}

func (e *otherEngine) inventory() plan.Inventory {
	w := e.w
	inventory := plan.Inventory{ControlPlane: e.version(w.cp.spec), WorkersUpgrading: w.pending.has(afterWorkers)}
	for i, c := range e.Groups {
		if g := w.groups[i]; g.inTopology && g.exists {
			inventory.Groups = append(inventory.Groups, plan.Group{Name: c.Name, Kind: c.Kind, Version: e.version(g.oldest), MaxMinorStep: c.MaxMinorStep})
		}
	}
	return inventory
}

// write makes an effect. Where it is lost the engine dies with it, which is the worst that can happen.
func (e *otherEngine) write(what string, effect func()) bool {
	if e.attempt(what, effect) != nil {
		e.dead, e.w.ledger.forgiven = true, true
	}
	return !e.dead
}

// mark writes pending hooks.
func (e *otherEngine) mark(now hooks) bool {
	e.held = now
	if now == e.w.pending {
		return true
	}
	return e.write("the mark of hooks", func() {
		old := *e.w
		e.w.pending = now
		e.recorded(&old)
	})
}

// pass calls a pending hook and takes its mark away. It reports whether the reconcile goes on, and whether the hook blocks.
func (e *otherEngine) pass(h hook) (goesOn, blocks bool) {
	if !e.held.has(h) {
		return true, false
	}
	reply, err := e.call(h, e.w.cp.spec)
	switch {
	case err != nil:
		return false, false
	case reply.RetryAfter > 0:
		return true, true
	default:
		return e.mark(e.held.without(h)), false
	}
}

func (e *otherEngine) stepHooks(v rung) hooks {
	marks := e.held.with(afterControlPlane)
	if e.workersAt(v) {
		marks = marks.with(beforeWorkers, afterWorkers)
	}
	return marks
}

// workersAt reports whether v is the workers' next stop.
func (e *otherEngine) workersAt(v rung) bool {
	return len(e.plan.Workers) > 0 && e.plan.Workers[0].Equal(e.version(v))
}

// decideControlPlane calls what is due and finds the control plane's next version. It reports whether the reconcile goes on.
func (e *otherEngine) decideControlPlane() bool {
	w := e.w
	if w.cp.status == 0 {
		return true
	}
	if w.cp.upgrading() {
		return e.held.has(afterControlPlane) || e.mark(e.stepHooks(w.cp.spec))
	}
	for _, h := range []hook{afterControlPlane, beforeWorkers} {
		goesOn, blocks := e.pass(h)
		if !goesOn || blocks {
			e.blocked = blocks
			return goesOn
		}
	}
	e.forWorkers = e.workersAt(w.cp.spec)
	if e.forWorkers || slices.ContainsFunc(w.groups[:], group.rolling) {
		return true
	}
	if goesOn, blocks := e.pass(afterWorkers); !goesOn || blocks || !e.waits {
		return goesOn
	}
	return e.beginStep()
}

// rolling is what that engine counts as upgrading, also where the object is going.
func (g group) rolling() bool { return g.inTopology && g.exists && g.version != g.oldest }

func (e *otherEngine) beginStep() bool {
	if !e.held.has(afterCluster) {
		if e.w.blocker {
			return true
		}
		reply, err := e.call(beforeCluster, e.w.target)
		if err != nil || reply.RetryAfter > 0 {
			return err == nil
		}
		if !e.mark(e.held.with(afterCluster)) {
			return false
		}
	}
	next := e.rung(e.plan.ControlPlane[0])
	reply, err := e.call(beforeControlPlane, next)
	if err != nil || reply.RetryAfter > 0 {
		return err == nil
	}
	e.next, e.starts, e.waits = next, true, false
	return true
}

// move is what becomes of a group: to is zero for one that stays, and for one that waits.
type move struct {
	to    rung
	waits bool
}

// decideGroups finds what groups do. Unlike ours it moves MachinePools beside MachineDeployments.
func (e *otherEngine) decideGroups() []move {
	moves := make([]move, len(e.Groups))
	for _, kind := range []plan.GroupKind{plan.MachineDeployment, plan.MachinePool} {
		e.decideKind(kind, moves)
	}
	return moves
}

func (e *otherEngine) decideKind(kind plan.GroupKind, moves []move) {
	moving, held := 0, false
	for i, c := range e.Groups {
		if c.Kind == kind && e.w.groups[i].rolling() {
			moving++
		}
	}
	for i, c := range e.Groups {
		g := e.w.groups[i]
		if c.Kind != kind || !g.inTopology {
			continue
		}
		held = held || g.held
		moves[i] = e.decideGroup(g, held, moving >= max(e.Concurrency, 1))
		if g.exists && moves[i].to != 0 && !g.rolling() {
			moving++
		}
	}
}

func (e *otherEngine) decideGroup(g group, held, full bool) move {
	steady := e.w.cp.stable() && !e.starts && !e.blocked
	switch {
	case g.exists && g.version == e.w.target:
		return move{}
	case g.exists:
		return e.decideMove(g, held || g.deferred || full || !steady)
	case !steady || e.waits:
		return move{waits: true}
	default:
		return move{to: e.w.target}
	}
}

func (e *otherEngine) decideMove(g group, keptBack bool) move {
	if keptBack || e.waits && !e.forWorkers || len(e.plan.Workers) == 0 || e.workersAt(g.version) {
		return move{waits: true}
	}
	return move{to: e.rung(e.plan.Workers[0])}
}

// afterUpgrade calls AfterClusterUpgrade when all is still.
func (e *otherEngine) afterUpgrade(moves []move) bool {
	busy := !e.held.has(afterCluster) || e.held.has(afterControlPlane) || e.held.has(afterWorkers) || !e.w.cp.stable() || e.starts || e.waits
	for i, move := range moves {
		g := e.w.groups[i]
		busy = busy || move.waits || g.rolling() || g.exists && move.to != 0
	}
	if busy {
		return true
	}
	goesOn, _ := e.pass(afterCluster)
	return goesOn
}

// writeAll writes objects. The Cluster is written as it was computed, before hooks were marked as done or pending since, and only at the end
// with the marks as they are; who dies between the two leaves the old ones.
func (e *otherEngine) writeAll(step rung, asComputed hooks, moves []move) {
	w := e.w
	if !e.writeControlPlane() || e.starts && !e.mark(e.stepHooks(e.next)) {
		return
	}
	last := e.held
	if w.upgradeStep != step || asComputed != last {
		done := e.write("the Cluster", func() {
			w.upgradeStep = step
			if e.Faults.Cuts > 0 {
				w.pending = asComputed
			}
		})
		if !done {
			return
		}
	}
	for i, move := range moves {
		if !e.writeGroup(i, move) {
			return
		}
	}
	if e.deletesGroups() && last != w.pending {
		e.write("the Cluster's marks", func() { w.pending = last })
	}
}

func (e *otherEngine) deletesGroups() bool {
	for i := range e.Groups {
		if e.deletesGroup(i) != nil {
			e.dead, e.w.ledger.forgiven = true, true
			return false
		}
	}
	return true
}

func (e *otherEngine) writeControlPlane() bool {
	cp := &e.w.cp
	switch {
	case e.waits, cp.spec == e.next && cp.stamp == 0:
		return true
	case cp.spec == e.next:
		return e.write("the stamp", func() { cp.stamp = 0 })
	default:
		e.say("the control plane goes to %v", e.next)
		return e.write("that", func() { e.raisesControlPlane(e.next, 0) })
	}
}

func (e *otherEngine) writeGroup(i int, m move) bool {
	g := e.w.groups[i]
	if m.to == 0 || g.deleting {
		return true
	}
	return e.write(e.Groups[i].Name, func() {
		if !g.exists {
			e.createsGroup(i, m.to)
			return
		}
		e.say("%v goes to %v", e.Groups[i].Name, m.to)
		e.raisesGroup(i, m.to)
	})
}
