package explore

import (
	"fmt"
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

// of returns the phase of a hook that has one.
func (l *ledger) of(h hook) *phase {
	switch h {
	case beforeCreate:
		return &l.create
	case afterInitialized:
		return &l.initialize
	case beforeCluster:
		return &l.before
	case afterControlPlane:
		return &l.controlPlane
	case beforeWorkers:
		return &l.workersBefore
	case afterWorkers:
		return &l.workersAfter
	case afterCluster:
		return &l.after
	case beforeDelete:
		return &l.remove
	case beforeControlPlane:
	}
	return nil
}

// checker collects the invariants that an action violates, each once, joined by "; ".
type checker struct{ violation string }

func (c *checker) check(ok bool, format string, args ...any) {
	if ok {
		return
	}
	switch problem := fmt.Sprintf(format, args...); {
	case c.violation == "":
		c.violation = problem
	case !strings.Contains(c.violation, problem):
		c.violation += "; " + problem
	}
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
		r.check(l.forgiven, "%s is called again for %s though it is completed", name, r.m.version(step))
	}
	r.check(!r.asRead.paused, "%s is called while the Cluster is paused", name)
	switch h {
	case beforeCreate:
		r.check(!w.begun, "%s is called though the topology exists", name)
	case afterInitialized:
		r.check(w.cp.initialized, "%s is called before the control plane is initialized", name)
	case beforeDelete:
		r.check(w.deleting, "%s is called", name)
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
		r.check(!l.began || r.unproven(step) || l.forgiven, "%s is called for %s in the middle of an upgrade to %s", h, r.m.version(step), r.m.version(l.allowed))
		r.checkEnded(h.String() + " is called for " + r.m.version(step).String())
		r.check(!r.asRead.blocker, "%s is called though an annotation blocks the upgrade", h)
		r.check(w.settled() && !l.workersAfter.open() || l.forgiven, "%s is called before what came before it is over", h)
		r.check(step == r.asRead.target, "%s is called for %s", h, r.m.version(step))
		return
	}
	r.check((l.began && w.over() || l.forgiven) && step == w.cp.spec, "%s is called for %s before the upgrade is over", h, r.m.version(step))
	r.check(!l.moved || l.forgiven, "%s is called, and AfterWorkersUpgrade was not", h)
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
		r.check(due && (l.controlPlane != notDue || l.forgiven), "%s is called for %s, and the control plane is not just there", h, r.m.version(step))
		return
	}
	r.check(l.began || r.stock || l.forgiven, "%s is called before BeforeClusterUpgrade", h)
	r.check(w.over() || l.forgiven, "%s is called before the last step is over", h)
	again := l.announced == step && !l.replanned && !r.asRead.intent.aged
	r.check(r.stock || !again, "%s is called again for %s though it is completed", h, r.m.version(step))
}

func (r *run) checkWorkersCall(h hook, step rung) {
	w, l := r.w, &r.w.ledger
	here := w.settled() && step == w.cp.spec
	if h == beforeWorkers {
		r.check(here && l.workersBefore != notDue || l.forgiven, "%s is called for %s, and it is not its turn", h, r.m.version(step))
		return
	}
	r.check(here && l.workersBefore == complete || l.forgiven, "%s is called for %s before BeforeWorkersUpgrade has let workers go", h, r.m.version(step))
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
	for i := range r.m.Groups {
		r.check(!r.moves(i), "%s while %s moves", what, r.m.Groups[i].Name)
		r.check(!r.lacks(i), "%s while %s lacks machines", what, r.m.Groups[i].Name)
	}
}

func (r *run) checkEveryGroupAt(v rung, what string) {
	for i := range r.m.Groups {
		// A group that is added meanwhile may be missed, one that was there may not.
		if g, seen := r.w.groups[i], r.asRead.groups[i]; g.inTopology && seen.inTopology && !g.deleting && !seen.deleting {
			// So may one that the topology has since the target is another.
			r.check(!g.exists && !seen.exists && v != r.asRead.target || g.exists && g.version == v && g.oldest == v, "%s, and %s is not at %s", what, r.m.Groups[i].Name, r.m.version(v))
		}
	}
}

// recorded keeps account of a write of the pending hooks and of what stands beside them.
func (r *run) recorded(old, now *world) {
	l := &now.ledger
	r.check(!r.asRead.paused, "the Cluster is written to while it is paused")
	for h := hook(1); int(h) < len(hookNames); h++ {
		switch was, is := old.pending.has(h), now.pending.has(h); {
		case is && !was:
			r.added(now, h)
		case was && !is:
			r.removed(l, h)
		}
	}
	r.checkStep(now)
	if now.okToDelete && !old.okToDelete {
		r.check(l.remove == passed, "the Cluster may be deleted, and BeforeClusterDelete did not let it go")
		l.remove = complete
	}
	r.recordedTarget(old, now)
	r.recordedIntent(old, now)
}

// recordedTarget checks that the upgrade goes no farther than those who were asked have let it.
func (r *run) recordedTarget(old, now *world) {
	l, to := &now.ledger, now.chainTarget
	begins := now.pending.has(afterCluster) && !old.pending.has(afterCluster)
	same := to == old.chainTarget && now.chainAt == old.chainAt && now.edited == old.edited
	if r.stock || to == 0 || !begins && same {
		return
	}
	nearer := !begins && r.m.older(to, l.allowed)
	r.check(nearer || l.asked == to || l.forgiven, "the upgrade goes on to %s, and BeforeClusterUpgrade did not let it pass", r.m.version(to))
	l.allowed, l.asked, l.before = to, 0, notDue
}

func (r *run) recordedIntent(old, now *world) {
	l := &now.ledger
	if now.intent != old.intent && now.intent.to != 0 {
		anew := old.intent.aged && !now.intent.aged
		r.check(l.next == now.intent.to || l.announced == now.intent.to && !anew, "a step to %s is announced, and BeforeControlPlaneUpgrade did not let it pass", r.m.version(now.intent.to))
		l.announced = now.intent.to
	}
}

// checkStep checks the upgrade step, which other controllers go by.
func (r *run) checkStep(now *world) {
	step := rung(0)
	if now.pending.has(afterCluster) {
		step = now.cp.spec
	}
	r.check(r.stock || now.deleting || now.upgradeStep == step, "the upgrade step is %s, and the control plane's %s", r.m.version(now.upgradeStep), r.m.version(step))
}

func (r *run) added(now *world, h hook) {
	l := &now.ledger
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
		r.check(l.controlPlane.open() || l.forgiven, "AfterControlPlaneUpgrade is to be called again for a step for which it is completed")
		l.controlPlane = due
	case beforeWorkers, afterWorkers:
		p := l.of(h)
		r.check(*p != complete || l.replanned || l.forgiven, "%s is to be called again for a step for which it is completed", h)
		*p = due
	case beforeCreate, beforeCluster, beforeControlPlane, beforeDelete:
		r.check(false, "%s is pending, and it never is", h)
	}
}

func (r *run) removed(l *ledger, h hook) {
	p := l.of(h)
	if p == nil {
		return
	}
	r.check(*p == passed || r.stock && l.forgiven, "%s counts as completed, and it did not let the Cluster pass", h)
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
func (r *run) raisesControlPlane(to rung, stamp rung) {
	w, l := r.w, &r.w.ledger
	from := w.cp.spec
	a, b := r.m.version(from), r.m.version(to)
	r.check(!r.m.older(to, from), "the control plane goes back from %s to %s", a, b)
	lag, ok := a.Minor().Lag(b.Minor())
	r.check(ok && lag <= 1, "the control plane goes from %s to %s at once", a, b)
	r.check(w.cp.stable(), "the control plane is set to %s while it is on its way to %s", b, a)
	r.check(!l.controlPlane.open() || l.forgiven, "the control plane goes on to %s, and AfterControlPlaneUpgrade for %s is lost", b, a)
	r.check(!l.workersBefore.open() && !l.workersAfter.open() || l.forgiven, "the control plane goes on to %s, and hooks about workers for %s are lost", b, a)
	r.check(l.next == to || l.announced == to, "the control plane goes to %s, and BeforeControlPlaneUpgrade did not let it pass", b)
	r.check(l.began || l.forgiven, "the control plane goes to %s, and BeforeClusterUpgrade did not let it pass", b)
	if !r.stock {
		r.checkOwnStep(to, stamp)
	}
	w.cp.spec, w.cp.stamp = to, stamp
	l.controlPlane, l.workersBefore, l.workersAfter = due, notDue, notDue
	l.next, l.announced, l.moved, l.replanned, l.turn = 0, 0, false, false, 0
	l.followed, l.lacked, l.stepped = 0, 0, true
	r.checkSkew(!r.stock)
}

// checkOwnStep checks what the other engine does not keep to.
func (r *run) checkOwnStep(to, stamp rung) {
	w, l := r.w, &r.w.ledger
	a, b := r.m.version(w.cp.spec), r.m.version(to)
	r.check(l.announced == to && w.intent.to == to && !r.asRead.intent.aged, "the control plane goes to %s before that is recorded", b)
	r.check(!l.moved || l.forgiven, "the control plane goes on to %s, and AfterWorkersUpgrade for %s was not called", b, a)
	r.check(!r.asRead.blocker || !r.beyond(to, r.asRead.ledger.free), "the control plane goes to %s, and an annotation blocks the upgrade", b)
	r.checkEnded("the control plane goes to " + b.String())
	r.check(!r.beyond(r.asRead.target, l.allowed) || l.forgiven && l.allowed == 0, "the control plane goes to %s on its way to %s, and BeforeClusterUpgrade has let the upgrade go to %s", b, r.m.version(r.asRead.target), r.m.version(l.allowed))
	r.check(stamp == to, "the control plane goes to %s and is stamped %s", b, r.m.version(stamp))
	r.check(!r.asRead.paused && !r.asRead.deleting, "the control plane goes to %s though the Cluster is paused or goes", b)
	r.checkNoneMoves("the control plane goes on")
}

// raisesGroup checks that a group may begin to move.
func (r *run) raisesGroup(i int, to rung) {
	w, l, name := r.w, &r.w.ledger, r.m.Groups[i].Name
	g := &w.groups[i]
	r.check(!r.m.older(to, g.version), "%s goes back from %s to %s", name, r.m.version(g.version), r.m.version(to))
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
	w, l, c := r.w, &r.w.ledger, r.m.Groups[i]
	name := c.Name
	g := &w.groups[i]
	r.check(!g.upgrading(), "%s is set to %s while it moves to %s", name, r.m.version(to), r.m.version(g.version))
	r.check(w.cp.stable() && to == w.cp.spec, "%s goes to %s, and the control plane is not there", name, r.m.version(to))
	r.check(l.workersBefore == complete || l.forgiven, "%s goes to %s, and BeforeWorkersUpgrade did not let workers go", name, r.m.version(to))
	r.check(l.workersAfter.open() && w.pending.has(afterWorkers) || l.forgiven, "%s goes to %s, and nobody will call AfterWorkersUpgrade", name, r.m.version(to))
	r.check(!r.asRead.paused && !r.asRead.deleting, "%s goes to %s though the Cluster is paused or goes", name, r.m.version(to))
	r.check(!r.asRead.groups[i].deferred, "%s goes to %s though it is deferred", name, r.m.version(to))
	for j := range i + 1 {
		r.check(!r.asRead.groups[j].inTopology || !r.asRead.groups[j].held, "%s goes to %s though %s holds the sequence", name, r.m.version(to), r.m.Groups[j].Name)
	}
	r.check(int(l.turn) <= i, "%s goes to %s after groups that follow it", name, r.m.version(to))
	r.checkConcurrency(i, to)
	if c.MaxMinorStep > 0 {
		lag, ok := r.m.version(g.version).Minor().Lag(r.m.version(to).Minor())
		r.check(ok && lag <= c.MaxMinorStep, "%s goes from %s to %s, which is farther than it can", name, r.m.version(g.version), r.m.version(to))
	}
}

// checkConcurrency checks what else moves.
func (r *run) checkConcurrency(i int, to rung) {
	c := r.m.Groups[i]
	name := c.Name
	moving := 1
	for j := range r.m.Groups {
		if j == i || !r.moves(j) && !r.lacks(j) {
			continue
		}
		if r.m.Groups[j].Kind == c.Kind {
			moving++
		}
		r.check(c.Kind == plan.MachineDeployment || r.m.Groups[j].Kind != plan.MachineDeployment, "%s goes to %s while %s moves", name, r.m.version(to), r.m.Groups[j].Name)
	}
	r.check(moving <= max(r.m.Concurrency, 1), "%s goes to %s, and then %d of its kind move", name, r.m.version(to), moving)
}

// checkSkew checks the machines of all groups against the API servers that may run beside them, also of groups that are going, where all says so. Only
// a step of this engine's control plane must wait for those: the other engine does not.
func (r *run) checkSkew(all bool) {
	for i := range r.m.Groups {
		if g := r.w.groups[i]; g.exists && (all || g.counts()) {
			r.checkGroupSkew(i)
		}
	}
}

func (r *run) checkGroupSkew(i int) {
	w, g := r.w, r.w.groups[i]
	for _, kubelet := range [...]rung{g.version, g.oldest} {
		for _, server := range [...]rung{w.cp.spec, w.cp.status} {
			if server != 0 && !r.m.Skew.Allows(r.m.version(kubelet).Minor(), r.m.version(server).Minor()) {
				r.check(false, "version skew: %s has kubelets of %s beside an API server of %s", r.m.Groups[i].Name, r.m.version(kubelet), r.m.version(server))
			}
		}
	}
}
