package chain

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Decide says what happens next. It asks nothing of the State but that groups have different names: whatever is contradictory
// in it ends in a Wait that says so.
func Decide(s State, now time.Time) Decision {
	d := decider{s: s, now: now, stops: make([][]version.Version, len(s.Groups))}
	switch {
	case s.Paused:
		return d.leave(Wait{}, Paused, "the Cluster is paused")
	case s.Deleting:
		return d.deleting()
	case !s.ControlPlane.Exists:
		return d.creating()
	default:
		return d.existing()
	}
}

type decider struct {
	s    State
	now  time.Time
	plan plan.Plan
	// stops are the rest of each group's own plan, in the order of State.Groups; none for a group that
	// does not exist, or is being deleted.
	stops [][]version.Version
	// problem is why there is no plan.
	problem error
}

func (d *decider) deleting() Decision {
	if d.s.OKToDelete {
		return d.leave(Wait{}, DeletingCluster, "the Cluster is being deleted")
	}
	decision, _ := d.call(BeforeClusterDelete, version.Version{}, Record{OKToDelete: true})
	decision.Objects.Leave = true
	return decision
}

// creating creates the topology. That the intent to call AfterControlPlaneInitialized is recorded says that BeforeClusterCreate has been
// passed: the hook is about creation, and must not be called again by whoever goes on with one that was interrupted.
func (d *decider) creating() Decision {
	if !d.s.Begun && !d.s.Pending.Has(AfterControlPlaneInitialized) {
		decision, _ := d.call(BeforeClusterCreate, version.Version{}, Record{Add: []Hook{AfterControlPlaneInitialized}})
		decision.Objects.Leave = true
		return decision
	}
	return d.decide(Create{}, Creating, "the Cluster's topology is being created at %s", d.s.Target)
}

// existing goes through the chain's order; the first thing that is due is the decision.
func (d *decider) existing() Decision {
	d.computePlan()
	stages := []func() (Decision, bool){
		d.readTooEarly, d.recordTakenStep, d.afterInitialized, d.controlPlaneSettles, d.path, d.afterControlPlane, d.beforeWorkers, d.workers, d.afterWorkers,
		d.atTarget, d.nextUpgrade, d.nextStep,
	}
	for _, stage := range stages {
		if decision, due := stage(); due {
			return decision
		}
	}
	return d.decide(Wait{}, UpToDate, "everything is at %s", d.s.Target)
}

func (d *decider) computePlan() {
	if d.s.SourceProblem != "" {
		return // Nothing says where versions come from.
	}
	d.plan, d.problem = plan.Compute(d.request(d.s.ControlPlane.Version))
	if d.problem == nil {
		d.setStops()
	}
}

// request asks for the plan from a version of the control plane.
func (d *decider) request(from version.Version) plan.Request {
	inventory := plan.Inventory{ControlPlane: from, Groups: make([]plan.Group, 0, len(d.s.Groups))}
	for i := range d.s.Groups {
		if g := &d.s.Groups[i]; g.planned() {
			inventory.Groups = append(inventory.Groups, plan.Group{Name: g.Name, Kind: g.Kind, Version: g.Oldest, MaxMinorStep: g.MaxMinorStep})
		}
	}
	return plan.Request{
		Inventory: inventory, Target: d.s.Target, Source: d.s.Source,
		Policy: plan.Policy{Skew: d.s.Skew, Workers: plan.WorkersPerGroup},
	}
}

// setStops takes the stops of groups from the plan.
func (d *decider) setStops() {
	d.stops = make([][]version.Version, len(d.s.Groups))
	// A plan has the MachineDeployments before the MachinePools, each in the inventory's order.
	next, nextPool := 0, slices.IndexFunc(d.plan.Groups, func(g plan.GroupPlan) bool { return g.Kind == plan.MachinePool })
	for i := range d.s.Groups {
		switch g := &d.s.Groups[i]; {
		case !g.planned():
		case g.Kind == plan.MachinePool:
			d.stops[i] = d.plan.Groups[nextPool].Upgrades
			nextPool++
		default:
			d.stops[i] = d.plan.Groups[next].Upgrades
			next++
		}
	}
}

// readTooEarly waits where the Cluster says that the control plane has been raised, and the control plane as it was read does not show it yet. What
// follows the step must not be called for the version before it, and nothing is written: the upgrade step above all, which tells of it.
func (d *decider) readTooEarly() (Decision, bool) {
	at, step, intent := d.s.ControlPlane.Version, d.s.UpgradeStep, d.s.Intent
	below := d.s.Pending.Has(AfterControlPlaneUpgrade) && version.Compare(step, at) == version.Greater
	if step.IsZero() || !below && !at.Equal(d.s.TakenBack) {
		return Decision{}, false
	}
	if intent != nil && intent.To.Equal(at) && intent.isTaken(d.s) {
		return Decision{}, false // The step recorded was taken back, and this one is not recorded yet.
	}
	decision := d.decide(Wait{}, ControlPlaneUpgrading, "the step of the control plane to %s is recorded, and it asks for %s", step, at)
	decision.Objects.Leave = true
	return decision, true
}

// recordTakenStep records the hooks that follow a step of the control plane which has been taken. It is part of
// RaiseControlPlane; here it is made up for after a crash, or for another engine that stopped between the two. The stamp tells a step of this
// engine from an intent that another one has overtaken, whose hooks that one has seen to. It stays where another engine has only gone on from this
// one's step; that one has then written the upgrade step, after the hooks.
func (d *decider) recordTakenStep() (Decision, bool) {
	cp, intent := d.s.ControlPlane, d.s.Intent
	if intent != nil && cp.Version.Equal(intent.To) {
		if intent.isTaken(d.s) && !d.s.UpgradeStep.Equal(intent.To) {
			return d.note(d.taken(*intent), "the control plane has been set to %s", cp.Version), true
		}
		if !d.unrecorded() {
			return d.note(Record{ClearIntent: true}, "another engine has taken the control plane to %s", cp.Version), true
		}
	}
	if !d.unrecorded() {
		return Decision{}, false
	}
	return d.note(d.taken(Intent{To: cp.Version, Workers: d.stopsAt(cp.Version)}), "the control plane has been set to %s", cp.Version), true
}

// unrecorded reports whether the control plane is on its way and nobody has recorded the hook that follows.
func (d *decider) unrecorded() bool {
	return d.s.ControlPlane.Provisioned && d.s.ControlPlane.Upgrading && !d.s.Pending.Has(AfterControlPlaneUpgrade)
}

// taken is what is recorded when a step has been taken. If the hook after the step before is pending,
// that one was taken back: its hooks are called for this step.
func (d *decider) taken(i Intent) Record {
	r := Record{Add: []Hook{AfterControlPlaneUpgrade}, ClearIntent: true}
	if d.s.Pending.Has(AfterControlPlaneUpgrade) {
		r.InsteadOf = i.From
	}
	if i.Workers {
		r.Add = append(r.Add, BeforeWorkersUpgrade, AfterWorkersUpgrade)
	}
	return r
}

func (d *decider) controlPlaneSettles() (Decision, bool) {
	switch cp := d.s.ControlPlane; {
	case !cp.Provisioned:
		return d.decide(Wait{}, ControlPlaneProvisioning, "the control plane is being provisioned at %s", cp.Version), true
	case cp.Upgrading:
		if decision, due := d.takeBack(); due {
			return decision, true
		}
		return d.decide(Wait{}, ControlPlaneUpgrading, "the control plane is upgrading to %s", cp.Version), true
	default:
		return Decision{}, false
	}
}

func (d *decider) afterInitialized() (Decision, bool) {
	if !d.s.Initialized {
		return Decision{}, false
	}
	return d.pending(AfterControlPlaneInitialized, version.Version{})
}

// path stops everything that would begin, while what runs goes on.
func (d *decider) path() (Decision, bool) {
	switch {
	case d.s.SourceProblem != "":
		return d.decide(Wait{}, NoSource, "cannot get the upgrade plan:  %s", d.s.SourceProblem), true
	case d.problem != nil:
		return d.decide(Wait{}, NoPath, "there is no upgrade path to %s%s: %s", d.s.Target, d.inList(), d.problem.Error()), true
	case len(d.plan.ControlPlane) == 0 && !d.s.ControlPlane.Version.Equal(d.s.Target):
		return d.decide(Wait{}, NoPath, "the plan from %s to %s is empty", d.s.ControlPlane.Version, d.s.Target), true
	default:
		return Decision{}, false
	}
}

// inList names the field whose list of versions has no path to the target. It is empty if the list is
// not the problem.
func (d *decider) inList() string {
	_, listed := d.s.Source.(plan.VersionList)
	problem, ok := errors.AsType[*plan.Error](d.problem)
	if !listed || !ok || problem.Rule != plan.RuleMinorMissing && problem.Rule != plan.RuleTargetNotOffered {
		return ""
	}
	return " in ClusterClass spec.kubernetesVersions"
}

func (d *decider) afterControlPlane() (Decision, bool) {
	return d.pending(AfterControlPlaneUpgrade, d.s.ControlPlane.Version)
}

func (d *decider) beforeWorkers() (Decision, bool) {
	if !d.s.Pending.Has(BeforeWorkersUpgrade) {
		return Decision{}, false
	}
	if d.passesWorkers() {
		cancel := Record{Remove: []Hook{BeforeWorkersUpgrade, AfterWorkersUpgrade}}
		return d.note(cancel, "no workers stop at %s any more", d.s.ControlPlane.Version), true
	}
	then := Record{Remove: []Hook{BeforeWorkersUpgrade}, Lacked: d.s.lacked()}
	return d.call(BeforeWorkersUpgrade, d.s.ControlPlane.Version, then)
}

// passesWorkers reports whether the step of workers that was announced is none: the plan has changed since the
// control plane's own step, and no group stops at its version, or is on its way.
func (d *decider) passesWorkers() bool {
	return !d.s.ControlPlane.Version.Equal(d.s.Target) && len(d.moves()) == 0 && !d.s.anyUpgrading()
}

// workers moves the groups that must follow the control plane to where it is now, and waits for all that move.
func (d *decider) workers() (Decision, bool) {
	at := d.s.ControlPlane.Version
	moves := d.moves()
	turn := d.selectTurn()
	switch {
	case len(turn) > 0 && !d.s.Pending.Has(AfterWorkersUpgrade):
		// A step that nobody announced: the plan has changed since the control plane's own step, or another engine has left it so.
		return d.note(Record{Add: []Hook{BeforeWorkersUpgrade, AfterWorkersUpgrade}}, "workers go to %s", at), true
	case len(turn) > 0:
		return d.raiseWorkers(turn), true
	case d.s.anyUpgrading():
		return d.decide(Wait{}, WorkersUpgrading, "%s", d.upgradingMessage()), true
	case len(d.s.short()) > 0:
		return d.decide(Wait{}, WorkersShort, "%s", d.shortMessage()), true
	case len(moves) > 0:
		return d.decide(Wait{}, WorkersDeferred, "%s to %s, kept back by defer-upgrade or hold-upgrade-sequence", names(moves), at), true
	default:
		return Decision{}, false
	}
}

func (d *decider) afterWorkers() (Decision, bool) {
	return d.pending(AfterWorkersUpgrade, d.s.ControlPlane.Version)
}

func (d *decider) atTarget() (Decision, bool) {
	if !d.s.ControlPlane.Version.Equal(d.s.Target) {
		return Decision{}, false
	}
	if slices.ContainsFunc(d.s.Groups, func(g Group) bool { return !g.Exists }) {
		return d.decide(Wait{}, CreatingGroups, "groups that were added are being created at %s", d.s.Target), true
	}
	if decision, due := d.afterCluster(d.s.Target); due {
		return decision, true
	}
	if d.s.Intent != nil || !d.s.ChainTarget.IsZero() {
		return d.note(Record{ClearIntent: true, ClearChainTarget: true}, "another engine has ended the upgrade to %s", d.s.Target), true
	}
	return d.decide(Wait{}, UpToDate, "everything is at %s", d.s.Target), true
}

// nextUpgrade begins an upgrade, once for a whole chain. BeforeClusterUpgrade must pass for the
// present target or for a later one. The only proof of that is the target that this engine records:
// another engine records that AfterClusterUpgrade is pending, but not for which target. Without
// proof, end the upgrade that is complete, then ask for the present target.
func (d *decider) nextUpgrade() (Decision, bool) {
	then := Record{ChainTarget: d.s.Target, ChainGeneration: d.s.Generation}
	if d.s.Pending.Has(AfterClusterUpgrade) {
		approved := d.s.approved()
		switch {
		case approved.Equal(d.s.Target):
			return Decision{}, false
		case d.s.complete():
			return d.afterCluster(d.s.ControlPlane.Version)
		case version.Compare(d.s.Target, approved) == version.Less:
			return d.note(then, "the upgrade continues to %s", d.s.Target), true
		}
	}
	if len(d.s.Blockers) > 0 {
		return d.decide(Wait{}, BlockedByAnnotation, "the upgrade to %s waits while the Cluster has %s. Fix: remove it when the upgrade may begin", d.s.Target, text.JoinSome(d.s.Blockers, shown, ", ")), true
	}
	if !d.s.Pending.Has(AfterClusterUpgrade) {
		then.Add = []Hook{AfterClusterUpgrade}
	}
	return d.call(BeforeClusterUpgrade, d.s.Target, then)
}

// IntentHolds is how long a step may be taken that BeforeControlPlaneUpgrade let pass: long enough for a manager that comes back from a crash, and not so
// long that a maintenance window which was open then is over.
const IntentHolds = 2 * time.Minute

// nextStep begins the control plane's next step, which exists: the control plane is below the target, and the plan is legal.
func (d *decider) nextStep() (Decision, bool) {
	return d.stepTo(d.plan.ControlPlane[0])
}

// stepTo begins a step of the control plane, by the plan.
func (d *decider) stepTo(to version.Version) (Decision, bool) {
	from := d.s.ControlPlane.Version
	if left := d.leftBehind(to); len(left) > 0 {
		return d.decide(Wait{}, GroupsLeaving, "the control plane waits with its step to %s until %s, which lags too far behind for it, is gone", to, names(left)), true
	}
	intent := Intent{From: from, To: to, Workers: d.stopsAt(to), Passed: d.now.UTC().Truncate(time.Second)}
	if i := d.s.Intent; i == nil || !i.From.Equal(from) || !i.To.Equal(to) || !i.holds(d.now) {
		return d.call(BeforeControlPlaneUpgrade, to, Record{Intent: &intent})
	}
	raise := RaiseControlPlane{To: to, Then: d.taken(intent)}
	if stamp := intent.stamp(d.s); !stamp.Equal(to) {
		raise.Stamp = stamp
	}
	decision := d.decide(raise, ControlPlaneStep, "the control plane goes from %s to %s", from, to)
	decision.Objects.ControlPlane = Object{Version: to}
	return decision, true
}

// stamp is what stands on the control plane when the step is taken: its version. A step back to what the
// control plane runs, whose stamp it had before, is stamped with the version that was taken back.
func (i Intent) stamp(s State) version.Version {
	if s.Pending.Has(AfterControlPlaneUpgrade) && version.Compare(i.To, s.UpgradeStep) == version.Less {
		return i.From
	}
	return i.To
}

// isTaken reports whether the control plane has the stamp of the step.
func (i Intent) isTaken(s State) bool { return s.ControlPlane.Stamp.Equal(i.stamp(s)) }

// holds reports whether the pass still counts. One of the future is none: no clock tells when it
// ends, and whoever may annotate the Cluster can write it. The hook is called again.
func (i Intent) holds(now time.Time) bool {
	age := now.Sub(i.Passed)
	return age >= 0 && age <= IntentHolds
}

func (d *decider) afterCluster(target version.Version) (Decision, bool) {
	if !d.s.Pending.Has(AfterClusterUpgrade) {
		return Decision{}, false
	}
	return d.call(AfterClusterUpgrade, target, Record{Remove: []Hook{AfterClusterUpgrade}, ClearChainTarget: true, ClearIntent: true})
}

// pending calls a hook that there is an intent to call.
func (d *decider) pending(h Hook, step version.Version) (Decision, bool) {
	if !d.s.Pending.Has(h) {
		return Decision{}, false
	}
	return d.call(h, step, Record{Remove: []Hook{h}})
}

// call calls a hook, or waits where it has just been called and did not let the Cluster pass this step.
func (d *decider) call(h Hook, step version.Version, then Record) (Decision, bool) {
	for _, a := range d.s.Answers {
		// The clock may have been set back since the answer.
		counts := a.Until.After(d.now) && !a.Given.After(d.now)
		if a.Hook != h || !a.Step.Equal(step) || !counts {
			continue
		}
		if a.Failed {
			return d.decide(Wait{Until: a.Until}, HookFailed, "hook %s%s failed: %s", h, about(step), a.Message), true
		}
		return d.decide(Wait{Until: a.Until}, HookBlocking, "hook %s%s is blocking: %s", h, about(step), a.Message), true
	}
	return d.decide(CallHook{Hook: h, Step: step, Then: then}, HookDue, "hook %s%s is called", h, about(step)), true
}

func (d *decider) note(r Record, format string, args ...any) Decision {
	return d.decide(Note{Record: r}, Recording, format, args...)
}

func (d *decider) leave(a Action, reason Reason, message string) Decision {
	return Decision{Action: a, Reason: reason, Message: message, Objects: Objects{Leave: true}}
}

// decide completes a Decision in which no version changes.
func (d *decider) decide(a Action, reason Reason, format string, args ...any) Decision {
	return Decision{
		Action: a, Reason: reason, Message: fmt.Sprintf(format, args...), Plan: d.plan,
		Objects: Objects{ControlPlane: d.controlPlaneAsIs(), Groups: d.groupsAsAre()},
		Groups:  d.groupStatus(),
	}
}

func about(step version.Version) string {
	if step.IsZero() {
		return ""
	}
	return " for " + step.String()
}
