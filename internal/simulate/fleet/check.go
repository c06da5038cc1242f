package fleet

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// checker checks invariants against what really happens in the simulated world, never against what the engine believes. Its methods are told before an
// effect takes place, where they do not say otherwise.
type checker struct {
	*sim
	violation *Violation
	// passed is when the gates last let a step of a cluster through.
	passed map[passKey]time.Duration
	// lost are the canaries of groups that failed and were remediated.
	lost map[*group]lostCanaries
}

type passKey struct {
	cluster int
	step    gate.Step
}

func (k *checker) violate(c *cluster, format string, args ...any) {
	if k.violation == nil {
		k.violation = &Violation{At: k.now, Cluster: c.Name, Problem: fmt.Sprintf(format, args...), Trace: slices.Clone(c.trace)}
	}
}

// passes notes that the gates let a step through.
func (k *checker) passes(c *cluster, step gate.Step) {
	k.passed[passKey{c.index, step}] = k.now
}

// intentHolds is how long a pass may be used, and a little for the effects of one reconcile.
const intentHolds = chain.IntentHolds + time.Second

// raises: the control plane goes to its next version.
func (k *checker) raises(c *cluster, to version.Version) {
	cp := c.controlPlane()
	from := cp.template
	switch i := c.recorded.Intent; {
	case i == nil || !i.From.Equal(from) || !i.To.Equal(to):
		k.violate(c, "the control plane goes from %s to %s, and no such intent is on record", from, to)
	case !c.recorded.Pending.Has(chain.AfterClusterUpgrade):
		k.violate(c, "the control plane goes to %s, and the intent to call AfterClusterUpgrade is not on record", to)
	}
	if lag, ok := from.Minor().Lag(to.Minor()); !ok || lag > 1 {
		k.violate(c, "the control plane goes from %s to %s: more than one minor, or back", from, to)
	}
	if cp.off > 0 {
		k.violate(c, "the control plane goes to %s while %d of its machines are not at %s yet", to, cp.off, from)
	}
	if g := c.moving(""); len(g) > 0 {
		k.violate(c, "the control plane goes to %s while pool %s is on its way to %s", to, g[0].name, g[0].template)
	}
	at, ok := k.passed[passKey{c.index, gate.Step{Hook: gate.BeforeControlPlaneUpgrade, Version: to}}]
	if c.Gates != nil && (!ok || k.now-at > intentHolds) {
		k.violate(c, "the control plane goes to %s, and the gates have not let it in the last %s", to, intentHolds)
	}
}

// complete: when a workers step of an upgrade ends, no MachineDeployment that it moved lacks more
// machines than before the step, as far as the engine can know by then: they could not join after the
// control plane's next step.
func (k *checker) complete(c *cluster) {
	at := c.controlPlane().template
	chain := c.recorded.Chain
	if chain == nil || chain.At.Equal(at) {
		return
	}
	var lacked map[string]int32
	if last := len(chain.Steps) - 1; last >= 0 && chain.Steps[last].To.Equal(at) {
		lacked = chain.Steps[last].Lacked
	}
	for _, g := range c.groups[1:] {
		if g.template == at && g.missing() > lacked[g.name] && k.now-g.changed > k.cfg.Faults.Lag {
			k.violate(c, "the workers step to %s ends while pool %s lacks machines", at, g.name)
		}
	}
}

// moving returns the pools of a kind, or of all, that are on their way.
func (c *cluster) moving(kind plan.GroupKind) []*group {
	var list []*group
	for _, g := range c.groups[1:] {
		if g.off > 0 && g.op != nil && (kind == "" || g.kind == kind) {
			list = append(list, g)
		}
	}
	return list
}

// raisesPool: a pool has been set to another version.
func (k *checker) raisesPool(g *group) {
	c, cp := g.cluster, g.cluster.controlPlane()
	if g.template != cp.template || cp.off > 0 {
		k.violate(c, "pool %s goes to %s, and the control plane is not there, or not with all machines", g.name, g.template)
	}
	if c.recorded.Pending.Has(chain.BeforeWorkersUpgrade) || !c.recorded.Pending.Has(chain.AfterWorkersUpgrade) {
		k.violate(c, "pool %s goes to %s before BeforeWorkersUpgrade has let it, or without the intent to call AfterWorkersUpgrade", g.name, g.template)
	}
	if lag, ok := g.op.from.Minor().Lag(g.template.Minor()); !ok || g.minorStep > 0 && lag > g.minorStep {
		k.violate(c, "pool %s goes from %s to %s, and its update method can do %d minors", g.name, g.op.from, g.template, g.minorStep)
	}
	if moving := c.moving(g.kind); len(moving) > max(1, c.PoolsAtOnce) {
		k.violate(c, "%d pools are upgrading at once; %d may", len(moving), max(1, c.PoolsAtOnce))
	}
}

// recordsChain: the Cluster's record is written.
func (k *checker) recordsChain(c *cluster, r chain.Recorded) {
	old := c.recorded.Pending
	if old.Has(chain.AfterClusterUpgrade) && old.Has(chain.AfterWorkersUpgrade) && !r.Pending.Has(chain.AfterWorkersUpgrade) {
		k.complete(c)
	}
	if r.Intent != nil && r.Intent.From == r.Intent.To {
		k.violate(c, "an intent from %s to itself is recorded", r.Intent.To)
	}
}

// skew checks all kubelets of a cluster against its API servers.
func (k *checker) skew(c *cluster) {
	var oldest, newest version.Minor
	for _, server := range c.controlPlane().kubelets {
		if server.n == 0 {
			continue
		}
		minor := server.version.Minor()
		if oldest == (version.Minor{}) || minor.Before(oldest) {
			oldest = minor
		}
		if newest.Before(minor) {
			newest = minor
		}
	}
	for _, kubelet := range c.workers {
		if kubelet.n == 0 || newest == (version.Minor{}) {
			continue
		}
		minor := kubelet.version.Minor()
		if oldest.Before(minor) {
			k.violate(c, "a kubelet runs %s, and an API server %s", minor, oldest)
		}
		if !k.skewOf(c).Allows(minor, newest) && !newest.Before(minor) {
			k.violate(c, "a kubelet runs %s, and an API server %s: farther apart than the skew policy allows", minor, newest)
		}
	}
}

// runs: a node runs another version than before, or has joined.
func (k *checker) runs(m *machine) {
	k.skew(m.group.cluster)
	k.quorum(m.group)
}

// leaves: a machine has gone.
func (k *checker) leaves(m *machine) { k.quorum(m.group) }

// quorum: at most one machine of a control plane is in change.
func (k *checker) quorum(g *group) {
	if moving := g.moving(); g.isCP && moving > 1 {
		k.violate(g.cluster, "%d machines of the control plane change at once", moving)
	}
}

// creates: a machine is made.
func (k *checker) creates(m *machine) {
	g := m.group
	total := g.present()
	if total > g.desired+int(g.limits.Surge) {
		k.violate(g.cluster, "%s has %d machines, %d are desired, and maxSurge is %d", g.name, total, g.desired, g.limits.Surge)
	}
	if g.update.Guarded && total > g.desired {
		k.violate(g.cluster, "a machine of %s is made beyond those that are desired, and its policy forbids to replace machines", g.name)
	}
	k.quorum(g)
}

// deletes: a machine is deleted.
func (k *checker) deletes(m *machine) {
	g := m.group
	remediated := g.update.Policy.Remediate && m.progress != nil && m.progress.Phase == inplace.Failed
	if g.update.Guarded && !remediated {
		k.violate(g.cluster, "machine %d of %s is deleted, and its policy forbids to replace machines", m.id, g.name)
	}
	if g.isCP && g.moving() > 0 {
		k.violate(g.cluster, "machine %d of the control plane is deleted while another one changes", m.id)
	}
	if m.made != g.template && !remediated {
		k.stage(g)
	}
	if remediated {
		k.losesCanary(m)
	}
}

// stage: a machine at an old version is about to be touched. The canary and the batches say how
// many machines may be, when so many are done. The batches are counted here as an UpdatePolicy says
// it.
func (k *checker) stage(g *group) {
	l := g.update.Limits
	if l == nil {
		return
	}
	done, left := g.atTemplate()
	end := share(l.Canary, g.desired)
	if lost := k.lost[g]; lost.to == g.template && done-lost.count < end {
		// Machines that took the place of canaries are none.
		done, end = done-lost.count, end+lost.count
	}
	for i := 0; done >= end && end < g.desired; i++ {
		if len(l.Batches) == 0 {
			return
		}
		end += max(1, share(l.Batches[min(i, len(l.Batches)-1)], g.desired))
	}
	if touched := g.desired - left + 1; touched > end {
		k.violate(g.cluster, "%d machines of %s are touched and %d done; "+
			"the canary and the batches allow %d",
			touched, g.name, done, end)
	}
}

// atTemplate counts the machines that rest as the template asks, and those that are left to touch.
func (g *group) atTemplate() (done, left int) {
	for _, m := range g.machines {
		switch {
		case m.made != g.template && m.state != gone && m.state != going:
			left++
		case m.made == g.template && m.state == idle:
			done++
		}
	}
	return done, left
}

// moves: a machine is about to be updated in place.
func (k *checker) moves(m *machine) {
	if g := m.group; g.isCP && g.moving() > 0 {
		k.violate(g.cluster, "machine %d of the control plane is updated while another one changes", m.id)
	}
	k.stage(m.group)
	if lost := k.lost[m.group]; lost.to == m.group.template && lost.holds {
		k.violate(m.group.cluster, "machine %d of %s is updated after a canary failed, and nobody "+
			"asked for it", m.id, m.group.name)
	}
}

// lostCanaries are the canaries of an update to a version that failed and were remediated. They
// hold their group until a person asks for a retry.
type lostCanaries struct {
	to    version.Version
	count int
	holds bool
}

// losesCanary: a machine is deleted because its update failed. It is a canary unless so many
// machines are done that took no canary's place.
func (k *checker) losesCanary(m *machine) {
	g := m.group
	if g.update.Limits == nil || m.made != g.template {
		return
	}
	lost := k.lost[g]
	if lost.to != g.template {
		lost = lostCanaries{to: g.template}
	}
	if done, _ := g.atTemplate(); done-lost.count >= share(g.update.Limits.Canary, g.desired) {
		return
	}
	lost.count, lost.holds = lost.count+1, true
	k.lost[g] = lost
}

// retries: a person asks for a retry after a canary was remediated.
func (k *checker) retries(g *group) {
	lost := k.lost[g]
	lost.holds = false
	k.lost[g] = lost
}

// share is a number, or a percentage of machines, rounded up.
func share(of intstr.IntOrString, machines int) int {
	n, _ := intstr.GetScaledValueFromIntOrPercent(&of, machines, true)
	return n
}

// capacity: so many machines of a group are missing or down.
func (k *checker) capacity(g *group, missing int) {
	allowed := int(g.limits.Unavailable)
	if g.sets.exceeds {
		allowed++
	}
	if g.tally.Failed+g.tally.GaveUp > 0 {
		allowed = max(allowed, 1) // What fails is not the rollout's doing.
	}
	if missing > allowed {
		k.violate(g.cluster, "%d machines of %s are down at once; maxUnavailable is %d", missing, g.name, allowed)
	}
}

// begins: a machine's update has begun.
func (k *checker) begins(m *machine) {
	scope := m.group.scope
	if scope.max > 0 && len(scope.inFlight) > scope.max {
		k.violate(m.group.cluster, "%d machines are updated at once; maxInFlight is %d", len(scope.inFlight), scope.max)
	}
	k.canary(m.group)
}

// canary: only so many machines of a group are updated before one has ended the same update.
func (k *checker) canary(g *group) {
	running := 0
	for _, m := range g.machines {
		failed := m.progress != nil && m.progress.Phase == inplace.Failed
		if ended := m.last != nil && m.last.Target == g.decision.Target; m.decision == g.decision && (failed || ended) {
			return
		}
		if m.state == updating && m.progress != nil && !failed {
			running++
		}
	}
	if most := g.update.Policy.Alone; most > 0 && running > most {
		k.violate(g.cluster, "%d machines of %s are updated at once, and none has ended the update; canary is %d", running, g.name, most)
	}
}

// recorded: progress has been recorded.
func (k *checker) recorded(m *machine, before, after *inplace.Progress) {
	switch {
	case before != nil && before.ID != after.ID:
		k.violate(m.group.cluster, "update %s of machine %d takes the place of %s, which has not ended", after.ID, m.id, before.ID)
	case before != nil && after.Operations < before.Operations:
		k.violate(m.group.cluster, "the operations of machine %d are counted down", m.id)
	case before != nil && before.Phase == inplace.Failed && after.Phase != inplace.Failed && !m.retry:
		k.violate(m.group.cluster, "the update of machine %d, which has failed finally, continues without a request to retry", m.id)
	case after.Attempt > m.group.update.Policy.MaxAttempts:
		k.violate(m.group.cluster, "attempt %d is made on machine %d, of at most %d", after.Attempt, m.id, m.group.update.Policy.MaxAttempts)
	}
}

// calls: an updater begins an operation.
func (k *checker) calls(m *machine, call inplace.Call) {
	g, p := m.group, m.progress
	if p == nil || p.Phase != inplace.Updating || p.Operation != call.Operation {
		k.violate(g.cluster, "updater %q begins operation %s on machine %d before that is on record", call.Step.Updater, call.Operation, m.id)
		return
	}
	if call.Step.NeedsDrain && g.update.Policy.Drain && !m.drained {
		k.violate(g.cluster, "updater %q begins on machine %d, whose node is not drained", call.Step.Updater, m.id)
	}
	lag, ok := m.kubelet.Minor().Lag(m.made.Minor())
	if most := call.Step.MaxMinors; !ok || call.Step.SetsVersion && most > 0 && int(lag) > most {
		k.violate(g.cluster, "updater %q is to bring machine %d from %s to %s, and can do %d minors", call.Step.Updater, m.id, m.kubelet, m.made, most)
	}
}

// drains: a node has been cordoned.
func (k *checker) drains(m *machine) {
	if p := m.progress; p == nil || p.Phase != inplace.Draining || !p.Cordoned {
		k.violate(m.group.cluster, "the node of machine %d is cordoned before that is on record", m.id)
	}
}

// uncordons: a node is made schedulable.
func (k *checker) uncordons(m *machine) { k.good(m, "made schedulable") }

// finishes: an update is recorded as ended.
func (k *checker) finishes(m *machine) {
	k.good(m, "recorded as updated")
	if m.cordoned {
		k.violate(m.group.cluster, "machine %d is recorded as updated, and its node is cordoned", m.id)
	}
}

func (k *checker) good(m *machine, what string) {
	if soak := m.group.update.Policy.Soak; m.kubelet != m.made || k.now < m.readyAt+soak {
		k.violate(m.group.cluster, "machine %d is %s, and its node has not been Ready at %s for %s", m.id, what, m.made, soak)
	}
}

// ends: every upgrade is over, and nothing happens any more.
func (k *checker) ends() {
	for _, c := range k.clusters {
		if len(c.recorded.Pending) > 0 || c.recorded.Intent != nil || c.recorded.Chain != nil {
			k.violate(c, "the upgrade is over, and this is still on record: %+v", c.recorded)
		}
		for _, g := range c.groups {
			k.rests(g)
		}
	}
}

// rests checks a group after the upgrade.
func (k *checker) rests(g *group) {
	if g.template != g.cluster.Target || g.off > 0 {
		k.violate(g.cluster, "the upgrade is over, and %s asks for %s, which %d machines do not run", g.name, g.template, g.off)
	}
	for _, m := range g.machines {
		if m.state != gone && !m.failed && (m.progress != nil || m.cordoned || m.state != idle) {
			k.violate(g.cluster, "the upgrade is over, and something still happens to machine %d of %s", m.id, g.name)
		}
	}
}
