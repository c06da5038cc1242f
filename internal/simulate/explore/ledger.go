package explore

import (
	"strings"

	"github.com/windlass-dev/windlass/pkg/plan"
)

// phase is how far a hook has come in its step, as the world saw it.
type phase uint8

const (
	// notDue: nothing has happened that the hook is about.
	notDue phase = iota
	// due: it must be called.
	due
	// passed: it has been called and let the Cluster pass.
	passed
	// complete: that is recorded.
	complete
)

// open reports whether the hook is owed.
func (p phase) open() bool { return p == due || p == passed }

// ledger is what really happened. Invariants are checked against it.
type ledger struct {
	// began: an upgrade has begun, and AfterClusterUpgrade is owed.
	began bool
	// The hooks about the present step of the control plane, and about the Cluster's life.
	create, initialize, before, controlPlane, workersBefore, workersAfter, after, remove phase
	// next is the step that BeforeControlPlaneUpgrade last let pass, announced the one for which that was recorded.
	next, announced rung
	// asked is the target for which BeforeClusterUpgrade last passed. allowed is the target up to which
	// the upgrade may go: that for which the hook had passed when the upgrade was recorded as begun,
	// by either engine, or the one that this engine recorded since. 0 when nobody knows it.
	asked, allowed rung
	// free is what allowed was when the before-upgrade annotation was set.
	free rung
	// followed are the groups that began to move, or were created, since the control plane's last step.
	// stepped: the control plane took a step in this upgrade.
	// lacked are the groups that lacked machines when this engine recorded that BeforeWorkersUpgrade
	// passed for that step.
	followed, lacked members
	stepped          bool
	// moved: a group has begun to move since AfterWorkersUpgrade was completed.
	moved bool
	// replanned: since the step began something has changed that a plan depends on, so workers may have to move again.
	replanned bool
	// turn is how far the order of groups has come: one more than the last that began to move.
	turn uint8
	// forgiven: the other engine was cut off in the middle, and what it loses then is its own fault.
	forgiven bool
}

// inferLedger believes what is recorded: of a world that begins in the middle of an upgrade there is nothing else to go by.
func (w *world) inferLedger() ledger {
	owed := func(h hook) phase {
		if w.pending.has(h) {
			return due
		}
		return notDue
	}
	l := ledger{
		began: w.pending.has(afterCluster), initialize: owed(afterInitialized), after: owed(afterCluster), controlPlane: owed(afterControlPlane),
		workersBefore: owed(beforeWorkers), workersAfter: owed(afterWorkers),
	}
	if l.workersAfter == due && l.workersBefore == notDue {
		l.workersBefore, l.moved = complete, true
	}
	switch {
	case w.intent.to != 0 && w.intent.to == w.cp.spec && w.cp.stamp == w.cp.spec && w.upgradeStep != w.cp.spec, w.cp.upgrading():
		l.controlPlane = due
	case w.intent.to != 0 && w.intent.from == w.cp.spec:
		l.announced = w.intent.to
	}
	l.replanned = l.began
	if l.began {
		l.allowed = w.chainTarget
	}
	l.stepped = l.began && w.chainAt != w.cp.spec
	l.followed, l.lacked = w.arrived(l.workersAfter)
	return l
}

// arrived are the groups at the control plane's version that are not known to have lacked machines
// before, where AfterWorkersUpgrade is due, and those of which it is recorded that they did.
func (w *world) arrived(workersAfter phase) (arrived, lacked members) {
	if w.stepTo == w.cp.spec {
		lacked = w.lacked
	}
	for i, g := range w.groups {
		if workersAfter == due && g.exists && !g.starved && g.version == w.cp.spec {
			arrived = arrived.with(i)
		}
	}
	return arrived, lacked
}

// of returns the phase of a hook that has one, and nil for others.
func (l *ledger) of(h hook) *phase {
	return [...]*phase{
		beforeCreate: &l.create, afterInitialized: &l.initialize, beforeCluster: &l.before, afterControlPlane: &l.controlPlane,
		beforeWorkers: &l.workersBefore, afterWorkers: &l.workersAfter, afterCluster: &l.after, beforeDelete: &l.remove,
	}[h]
}

// check notes an invariant that the action violates, unless it is ok: each once, joined by "; ".
func (r *run) check(ok bool, format string, args ...any) {
	if ok {
		return
	}
	switch problem := r.format(format, args...); {
	case r.violation == "":
		r.violation = problem
	case !strings.Contains(r.violation, problem):
		r.violation += "; " + problem
	}
}

// checkUnforgiven checks what holds unless the other engine was cut off in the middle.
func (r *run) checkUnforgiven(ok bool, format string, args ...any) {
	r.check(ok || r.w.ledger.forgiven, format, args...)
}

// called keeps account of a call that was made, and checks that it may be.
func (r *run) called(h hook, step rung, passes bool) {
	l := &r.w.ledger
	r.checkCall(h, step)
	if h == beforeControlPlane {
		if l.next = 0; passes {
			l.next = step
		}
		return
	}
	if h == beforeCluster {
		if l.asked = 0; passes {
			l.asked = step
		}
	}
	p := l.of(h)
	switch {
	case passes:
		*p = passed
	case *p == passed:
		*p = due
	}
}

// checkCall checks the order of hooks, and that one which is completed is not called again.
func (r *run) checkCall(h hook, step rung) {
	w, l, name := r.w, &r.w.ledger, h.String()
	if p := l.of(h); p != nil && *p == complete {
		r.check(l.forgiven, "%v is called again for %v though it is completed", name, step)
	}
	r.check(!r.asRead.paused, "%v is called while the Cluster is paused", name)
	switch h {
	case beforeCreate:
		r.check(!w.begun, "%v is called though the topology exists", name)
	case afterInitialized:
		r.check(w.cp.initialized, "%v is called before the control plane is initialized", name)
	case beforeDelete:
		r.check(w.deleting, "%v is called", name)
	case beforeCluster, afterCluster:
		r.checkClusterCall(h, step)
	case beforeControlPlane, afterControlPlane:
		r.checkControlPlaneCall(h, step)
	case beforeWorkers, afterWorkers:
		r.checkWorkersCall(h, step)
	}
}

// settled reports whether the control plane's last step is over, its hook included.
func (w *world) settled() bool { return w.cp.stable() && !w.ledger.controlPlane.open() }

func (r *run) checkClusterCall(h hook, step rung) {
	w, l := r.w, &r.w.ledger
	if h == beforeCluster {
		r.checkUnforgiven(!l.began || r.unproven(step), "%v is called for %v in the middle of an upgrade to %v", h, step, l.allowed)
		r.checkEnded(r.format("%v is called for %v", h, step))
		r.check(!r.asRead.blocker, "%v is called though an annotation blocks the upgrade", h)
		over := w.settled() && !l.workersAfter.open()
		r.checkUnforgiven(over || r.takesBack(), "%v is called before what came before it is over", h)
		r.check(step == r.asRead.target, "%v is called for %v", h, step)
		return
	}
	r.check((l.began && w.over() || l.forgiven) && step == w.cp.spec, "%v is called for %v before the upgrade is over", h, step)
	r.checkUnforgiven(!l.moved, "%v is called, and AfterWorkersUpgrade was not", h)
	if !r.stock {
		r.checkEveryGroupAt(step, h.String()+" is called")
	}
}

// over reports whether the last step is over, that of workers included.
func (w *world) over() bool {
	return w.settled() && !w.ledger.workersBefore.open() && !w.ledger.workersAfter.open()
}

func (r *run) checkControlPlaneCall(h hook, step rung) {
	w, l := r.w, &r.w.ledger
	if h == afterControlPlane {
		due := w.cp.stable() && step == w.cp.spec
		r.check(due && (l.controlPlane != notDue || l.forgiven), "%v is called for %v, and the control plane is not just there", h, step)
		return
	}
	r.checkUnforgiven(l.began || r.stock, "%v is called before BeforeClusterUpgrade", h)
	r.checkUnforgiven(w.over() || r.takesBack(), "%v is called before the last step is over", h)
	again := l.announced == step && !l.replanned && !r.asRead.intent.aged
	r.check(r.stock || !again, "%v is called again for %v though it is completed", h, step)
}

func (r *run) checkWorkersCall(h hook, step rung) {
	w, l := r.w, &r.w.ledger
	here := w.settled() && step == w.cp.spec
	if h == beforeWorkers {
		r.checkUnforgiven(here && l.workersBefore != notDue, "%v is called for %v, and it is not its turn", h, step)
		return
	}
	r.checkUnforgiven(here && l.workersBefore == complete, "%v is called for %v before BeforeWorkersUpgrade has let workers go", h, step)
	r.checkNoneMoves(h.String() + " is called")
}

// moves reports whether a group is on its way, and the engine could know that: a group that comes back while it acts, or was read late, it cannot.
func (r *run) moves(i int) bool {
	seen := r.asRead.groups[i]
	return r.w.groups[i].upgrading() && seen.counts() && !seen.lags
}

// lacks reports whether this engine must wait for machines of a group: the group moved after a step
// of this upgrade's control plane, did not lack machines before, and beside the control plane's next
// version the machines could not join.
func (r *run) lacks(i int) bool {
	l, seen := &r.w.ledger, &r.asRead.groups[i]
	if r.stock || !l.began || !l.stepped || !l.followed.has(i) || l.lacked.has(i) || !l.workersAfter.open() || r.asRead.chainAt == r.asRead.cp.spec {
		return false
	}
	return r.w.groups[i].short && r.w.joins(i) && seen.short && seen.counts() && r.asRead.joins(i)
}

// shortAsRead are the groups of which this engine reads that they lack machines.
func (r *run) shortAsRead() members {
	var lacked members
	for i, g := range r.asRead.groups {
		if !r.stock && g.short && g.counts() {
			lacked = lacked.with(i)
		}
	}
	return lacked
}

func (r *run) checkNoneMoves(what string) {
	for i := range r.Groups {
		r.check(!r.moves(i), "%v while %v moves", what, r.Groups[i].Name)
		r.check(!r.lacks(i), "%v while %v lacks machines", what, r.Groups[i].Name)
	}
}

func (r *run) checkEveryGroupAt(v rung, what string) {
	for i := range r.Groups {
		// A group that is added meanwhile may be missed, one that was there may not.
		if g, seen := r.w.groups[i], r.asRead.groups[i]; g.inTopology && seen.inTopology && !g.deleting && !seen.deleting {
			// So may one that the topology has since the target is another.
			r.check(!g.exists && !seen.exists && v != r.asRead.target || g.exists && g.version == v && g.oldest == v, "%v, and %v is not at %v", what, r.Groups[i].Name, v)
		}
	}
}

// recorded keeps account of a write of the pending hooks and of what stands beside them.
func (r *run) recorded(old *world) {
	now, l := r.w, &r.w.ledger
	r.check(!r.asRead.paused, "the Cluster is written to while it is paused")
	cancelled := r.cancelled(old)
	for h := hook(1); int(h) < len(hookNames); h++ {
		switch was, is := old.pending.has(h), now.pending.has(h); {
		case is && !was:
			r.added(h)
		case was && !is && !cancelled.has(h):
			r.removed(h)
		}
	}
	r.checkStep()
	if now.okToDelete && !old.okToDelete {
		r.check(l.remove == passed, "the Cluster may be deleted, and BeforeClusterDelete did not let it go")
		l.remove = complete
	}
	r.recordedTarget(old)
	r.recordedIntent(old)
}

// recordedTarget checks that the upgrade goes no farther than those who were asked have let it.
func (r *run) recordedTarget(old *world) {
	now, l, to := r.w, &r.w.ledger, r.w.chainTarget
	begins := now.pending.has(afterCluster) && !old.pending.has(afterCluster)
	same := to == old.chainTarget && now.chainAt == old.chainAt && now.edited == old.edited
	if r.stock || to == 0 || !begins && same {
		return
	}
	nearer := !begins && r.older(to, l.allowed)
	r.checkUnforgiven(nearer || l.asked == to, "the upgrade continues to %v, and BeforeClusterUpgrade did not let it pass", to)
	l.allowed, l.asked, l.before = to, 0, notDue
}

func (r *run) recordedIntent(old *world) {
	now, l := r.w, &r.w.ledger
	if now.intent != old.intent && now.intent.to != 0 {
		again := old.intent.aged && !now.intent.aged
		r.check(l.next == now.intent.to || l.announced == now.intent.to && !again, "a step to %v is announced, and BeforeControlPlaneUpgrade did not let it pass", now.intent.to)
		l.announced = now.intent.to
	}
}

// checkStep checks the upgrade step, which other controllers go by.
func (r *run) checkStep() {
	now, step := r.w, rung(0)
	if now.pending.has(afterCluster) {
		step = now.cp.spec
	}
	r.check(r.stock || now.deleting || now.upgradeStep == step, "the upgrade step is %v, and the control plane's %v", now.upgradeStep, step)
}

func (r *run) added(h hook) {
	now, l := r.w, &r.w.ledger
	switch h {
	case afterInitialized:
		r.check(l.create == passed, "the topology is to be created, and BeforeClusterCreate did not let it pass")
		l.create, l.initialize = complete, due
	case afterCluster:
		r.check(l.before == passed, "an upgrade is begun, and BeforeClusterUpgrade did not let it pass")
		l.before, l.after, l.began, l.stepped = notDue, due, true, false
		l.allowed = l.asked
		if r.stock && now.proven() && r.beyond(now.chainTarget, l.allowed) {
			l.allowed = now.chainTarget // See the package's assumptions.
		}
	case afterControlPlane:
		r.checkUnforgiven(l.controlPlane.open(), "AfterControlPlaneUpgrade is to be called again for a step for which it is completed")
		l.controlPlane = due
	case beforeWorkers, afterWorkers:
		p := l.of(h)
		r.checkUnforgiven(*p != complete || l.replanned, "%v is to be called again for a step for which it is completed", h)
		*p = due
	case beforeCreate, beforeCluster, beforeControlPlane, beforeDelete:
		r.check(false, "%v is pending, and it never is", h)
	}
}

func (r *run) removed(h hook) {
	l := &r.w.ledger
	p := l.of(h)
	if p == nil {
		return
	}
	r.check(*p == passed || r.stock && l.forgiven, "%v counts as completed, and it did not let the Cluster pass", h)
	*p = complete
	switch h {
	case beforeWorkers:
		l.lacked = r.shortAsRead()
	case afterWorkers:
		l.moved, l.turn = false, 0
	case afterCluster:
		l.began, l.after, l.allowed, l.stepped = false, notDue, 0, false
	case beforeCreate, afterInitialized, beforeCluster, beforeControlPlane, afterControlPlane, beforeDelete:
	}
}

// raisesControlPlane checks that the control plane may begin a step, and begins the ledger of that step.
func (r *run) raisesControlPlane(to, stamp rung) {
	w, l := r.w, &r.w.ledger
	from := w.cp.spec
	if r.takesBack() {
		r.takesStepBack(to)
		r.checkOwnStep(to, stamp)
		w.cp.prior, w.cp.spec, w.cp.stamp, w.cp.lags = from, to, stamp, false
		l.next, l.announced, l.replanned = 0, 0, false
		r.checkSkew(true)
		return
	}
	r.check(!r.older(to, from), "the control plane goes back from %v to %v", from, to)
	lag, ok := r.lag(from, to)
	r.check(ok && lag <= 1, "the control plane goes from %v to %v at once", from, to)
	r.check(w.cp.stable(), "the control plane is set to %v while it is on its way to %v", to, from)
	r.checkUnforgiven(!l.controlPlane.open(), "the control plane continues to %v, and AfterControlPlaneUpgrade for %v is lost", to, from)
	r.checkUnforgiven(!l.workersBefore.open() && !l.workersAfter.open(), "the control plane continues to %v, and hooks about workers for %v are lost", to, from)
	r.check(l.next == to || l.announced == to, "the control plane goes to %v, and BeforeControlPlaneUpgrade did not let it pass", to)
	r.checkUnforgiven(l.began, "the control plane goes to %v, and BeforeClusterUpgrade did not let it pass", to)
	if !r.stock {
		r.checkOwnStep(to, stamp)
	}
	w.cp.spec, w.cp.stamp, w.cp.prior, w.cp.joined = to, stamp, 0, false
	l.controlPlane, l.workersBefore, l.workersAfter = due, notDue, notDue
	l.next, l.announced, l.moved, l.replanned, l.turn = 0, 0, false, false, 0
	l.followed, l.lacked, l.stepped = 0, 0, true
	r.checkSkew(!r.stock)
}

// takesBack reports whether this engine could know that no machine of the control plane's step had
// joined.
func (r *run) takesBack() bool { return !r.stock && r.unjoined(r.asRead.cp) && r.w.cp.upgrading() }

// takesStepBack checks a step in the place of one that is under way. The hooks that follow are those of
// the step that was taken back: they are still owed.
func (r *run) takesStepBack(to rung) {
	w, l := r.w, &r.w.ledger
	running := w.cp.status
	r.check(!r.older(to, running), "the control plane is set to %v, and runs %v", to, running)
	lag, ok := r.lag(running, to)
	r.check(ok && lag <= 1, "the control plane goes from %v to %v at once", running, to)
	r.check(to != w.cp.spec && !r.broken(to), "the step to %v is taken back for %v", w.cp.spec, to)
	r.check(l.next == to || l.announced == to, "the control plane goes to %v, and BeforeControlPlaneUpgrade did not let it pass", to)
	r.checkUnforgiven(l.controlPlane.open(), "the step to %v is taken back, and its hook is lost", w.cp.spec)
}

// checkOwnStep checks what the other engine does not keep to.
func (r *run) checkOwnStep(to, stamp rung) {
	w, l := r.w, &r.w.ledger
	r.check(l.announced == to && w.intent.to == to && !r.asRead.intent.aged, "the control plane goes to %v before that is recorded", to)
	r.checkUnforgiven(!l.moved, "the control plane continues to %v, and AfterWorkersUpgrade for %v was not called", to, w.cp.spec)
	r.check(!r.asRead.blocker || !r.beyond(to, r.asRead.ledger.free), "the control plane goes to %v, and an annotation blocks the upgrade", to)
	r.checkEnded(r.format("the control plane goes to %v", to))
	r.check(!r.beyond(r.asRead.target, l.allowed) || l.forgiven && l.allowed == 0, "the control plane goes to %v on its way to %v, and BeforeClusterUpgrade has let the upgrade go to %v", to, r.asRead.target, l.allowed)
	r.check(stamp == to || r.takesBack() && stamp == w.cp.spec, "the control plane goes to %v and is stamped %v", to, stamp)
	r.check(!r.asRead.paused && !r.asRead.deleting, "the control plane goes to %v though the Cluster is paused or goes", to)
	r.checkNoneMoves("the control plane continues")
}

// raisesGroup checks that a group may begin to move.
func (r *run) raisesGroup(i int, to rung) {
	w, l, name := r.w, &r.w.ledger, r.Groups[i].Name
	g := &w.groups[i]
	r.check(!r.older(to, g.version), "%v goes back from %v to %v", name, g.version, to)
	if r.stock {
		l.moved = l.moved || w.pending.has(afterWorkers)
	} else {
		r.checkTurn(i, to)
		l.moved = true
		if l.turn = uint8(i + 1); r.changed { //nolint:gosec // at most MaxGroups
			l.turn = 0
		}
	}
	g.version, g.short = to, g.starved
	l.followed = l.followed.with(i)
	r.checkGroupSkew(i)
}

func (r *run) checkTurn(i int, to rung) {
	w, l, c := r.w, &r.w.ledger, r.Groups[i]
	g, name := &w.groups[i], c.Name
	r.check(!g.upgrading(), "%v is set to %v while it moves to %v", name, to, g.version)
	r.check(w.cp.stable() && to == w.cp.spec, "%v goes to %v, and the control plane is not there", name, to)
	r.checkUnforgiven(l.workersBefore == complete, "%v goes to %v, and BeforeWorkersUpgrade did not let workers go", name, to)
	r.checkUnforgiven(l.workersAfter.open() && w.pending.has(afterWorkers), "%v goes to %v, and nobody will call AfterWorkersUpgrade", name, to)
	r.check(!r.asRead.paused && !r.asRead.deleting, "%v goes to %v though the Cluster is paused or goes", name, to)
	r.check(!r.asRead.groups[i].deferred, "%v goes to %v though it is deferred", name, to)
	for j := range i + 1 {
		r.check(!r.asRead.groups[j].inTopology || !r.asRead.groups[j].held, "%v goes to %v though %v holds the sequence", name, to, r.Groups[j].Name)
	}
	r.check(int(l.turn) <= i, "%v goes to %v after groups that follow it", name, to)
	r.checkConcurrency(i, to)
	if c.MaxMinorStep > 0 {
		lag, ok := r.lag(g.version, to)
		r.check(ok && lag <= c.MaxMinorStep, "%v goes from %v to %v, which is farther than it can", name, g.version, to)
	}
}

// checkConcurrency checks what else moves.
func (r *run) checkConcurrency(i int, to rung) {
	c := r.Groups[i]
	name := c.Name
	moving := 1
	for j := range r.Groups {
		if j == i || !r.moves(j) && !r.lacks(j) {
			continue
		}
		if r.Groups[j].Kind == c.Kind {
			moving++
		}
		r.check(c.Kind == plan.MachineDeployment || r.Groups[j].Kind != plan.MachineDeployment, "%v goes to %v while %v moves", name, to, r.Groups[j].Name)
	}
	r.check(moving <= max(r.Concurrency, 1), "%v goes to %v, and then %d of its kind move", name, to, moving)
}

// checkSkew checks the machines of all groups against the API servers that may run beside them, also of groups that are going, where all says so. Only
// a step of this engine's control plane must wait for those: the other engine does not.
func (r *run) checkSkew(all bool) {
	for i := range r.Groups {
		if g := r.w.groups[i]; g.exists && (all || g.counts()) {
			r.checkGroupSkew(i)
		}
	}
}

func (r *run) checkGroupSkew(i int) {
	w, g := r.w, r.w.groups[i]
	for _, kubelet := range [...]rung{g.version, g.oldest} {
		for _, server := range [...]rung{w.cp.spec, w.cp.status} {
			if server != 0 && !r.Skew.Allows(r.version(kubelet).Minor(), r.version(server).Minor()) {
				r.check(false, "version skew: %v has kubelets of %v beside an API server of %v", r.Groups[i].Name, kubelet, server)
			}
		}
	}
}
