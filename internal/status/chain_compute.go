package status

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// chainComputation is what a Chain is put together from.
type chainComputation struct {
	facts Facts
	// records are those of the Machines, by name.
	records  map[string]machineRecord
	state    chain.State
	recorded chain.Recorded
	engine   Engine
	decision chain.Decision
	// next is what the engine does after what is running.
	next      []plan.Operation
	condition *metav1.Condition
	// observed are the steps that Events tell of.
	observed []Step
	// now is what ages of Machines are compared with.
	now      time.Time
	notKnown []string
	// recordedPlan is the source of the plan if that is the Cluster's status; else nil.
	recordedPlan *plan.Response
	// offSpec counts the machines that count as if they ran the version of their spec.
	offSpec int
}

// computeChain reports on the upgrade of a Cluster with a managed topology. f.Upgrade is not nil. now is what the rules are asked
// about; without answers of hooks, which only the controller has, they do not depend on it.
func computeChain(f Facts, records map[string]machineRecord, now time.Time) Chain {
	c, err := newChainComputation(f, records)
	if err != nil {
		return Chain{State: ChainUnknown, Problem: err.Error()}
	}
	c.engine, c.now = c.computeEngine(), now
	c.observed = c.observe()
	c.findSource()
	c.decide(now)
	report := Chain{
		Engine: c.engine, EngineSeen: f.Rollouts.EngineSeen.UTC(), Target: c.state.Target, Reason: c.decision.Reason, Now: describeNow(c.decision),
		Steps: c.steps(), Holds: c.holds(), OffSpec: c.offSpec,
	}
	report.AtTarget, report.Machines = c.countAll(c.state.Target)
	if c.condition != nil {
		report.Condition = &Condition{
			Status: c.condition.Status, Reason: c.condition.Reason, Message: c.condition.Message, Since: c.condition.LastTransitionTime.UTC(),
		}
	}
	if p := c.progress(); p != nil {
		report.From, report.Began = p.From, p.Began.UTC()
	}
	report.State = c.chainState(report)
	report.Brief = isBrief(c.decision.Action, report.State)
	if report.State == ChainCreating && c.state.ControlPlane.Provisioned {
		report.Now = fmt.Sprintf("the Cluster is being created at %s: its control plane is not initialized yet", c.state.Target)
	}
	report.Disagreement = c.disagreement(report.State)
	if report.HasPlan() && report.IsUnderWay() {
		report.PlanMade, report.PlanChanges = c.planChanges(report.Steps)
	}
	report.ETA = c.estimate(report)
	report.NotKnown = c.notKnown
	return report
}

// newChainComputation reads the facts. A machine that an annotation brought to another version looks as if it were on its way: where nothing else is, it is
// taken for being where it should be.
func newChainComputation(
	f Facts, records map[string]machineRecord,
) (*chainComputation, error) {
	if rested, offSpec := f.atRest(); offSpec > 0 {
		if c, err := readChain(rested, records); err == nil && !c.isUnderWay() {
			c.offSpec = offSpec
			return c, nil
		}
	}
	return readChain(f, records)
}

func readChain(f Facts, records map[string]machineRecord) (*chainComputation, error) {
	state, recorded, err := snapshot.Chain(f.Objects)
	if err != nil {
		return nil, err //nolint:wrapcheck // It says already which object it is about.
	}
	recorded.Chain = withStepBack(state, recorded.Chain)
	return &chainComputation{
		facts: f, records: records, state: state, recorded: recorded,
		condition: snapshot.TopologyCondition(f.Cluster),
	}, nil
}

// withStepBack adds to a way the step that the control plane was sent to instead of the last one, and that
// windlass manager is about to record.
func withStepBack(s chain.State, p *chain.Progress) *chain.Progress {
	i, cp := s.Intent, s.ControlPlane
	if i == nil || p == nil || len(p.Steps) == 0 || !s.Pending.Has(chain.AfterControlPlaneUpgrade) {
		return p
	}
	last := p.Steps[len(p.Steps)-1].To
	if !last.Equal(i.From) || !cp.Stamp.Equal(i.From) || !cp.Version.Equal(i.To) {
		return p
	}
	way := *p
	way.Steps = append(slices.Clone(p.Steps), chain.Step{To: i.To, Began: i.Passed, InsteadOf: i.From})
	return &way
}

// progress is the recorded way of the upgrade under way; nil where none is recorded, because another engine has gone on, or does all of it,
// or because nothing has begun.
func (c *chainComputation) progress() *chain.Progress {
	if !c.lastStepIsOurs() {
		return nil
	}
	return c.recorded.Chain
}

// lastStepIsOurs reports whether the records prove that windlass manager took the control plane's last step, or has yet to take the first one of
// the recorded upgrade. It stamps the control plane with each step, and another engine removes the stamp. A step back has the stamp of the step that
// was taken back.
func (c *chainComputation) lastStepIsOurs() bool {
	cp, p := c.state.ControlPlane, c.recorded.Chain
	switch {
	case !cp.Stamp.IsZero() && cp.Stamp.Equal(cp.Version):
		return true
	case p == nil:
		return false
	case len(p.Steps) == 0:
		return cp.Version.Equal(p.From)
	}
	last := p.Steps[len(p.Steps)-1]
	return !cp.Stamp.IsZero() && cp.Stamp.Equal(last.InsteadOf) && cp.Version.Equal(last.To)
}

// recordsSteps reports whether the upgrade's steps are on record, as far as there are any.
func (c *chainComputation) recordsSteps() bool {
	return c.engine == Windlass && (c.recorded.Chain == nil || c.lastStepIsOurs())
}

// computeEngine goes by the annotation that windlass manager keeps. Where it is absent, the records of a manager from before there was the annotation
// decide.
func (c *chainComputation) computeEngine() Engine {
	ours := c.lastStepIsOurs()
	if c.recorded.Chain != nil && !ours {
		c.notKnown = append(c.notKnown, "windlass manager began this upgrade, but another controller has taken the control plane's last step, and records none")
	}
	if ours || c.facts.Rollouts.Engine == v1alpha1.EngineManager {
		return Windlass
	}
	return ClusterAPI
}

// findSource gives the rules what the plan is made from. An extension is not asked; what it has answered the controller stands in
// the Cluster's status.
func (c *chainComputation) findSource() {
	upgrade := c.facts.Upgrade
	c.state.Source = upgrade.Source
	if upgrade.Source != nil || upgrade.SourceProblem == "" {
		return
	}
	answer, err := snapshot.RecordedPlan(c.facts.Cluster, c.state.ControlPlane.Version)
	switch {
	case err != nil:
		c.state.SourceProblem = err.Error()
		c.notKnown = append(c.notKnown, "what comes: "+c.state.SourceProblem)
	case len(answer.ControlPlane) == 0 && !c.state.ControlPlane.Version.Equal(c.state.Target):
		c.state.SourceProblem = upgrade.SourceProblem + "; the Cluster's status has no upgrade plan either"
		c.notKnown = append(c.notKnown, "what comes: "+c.state.SourceProblem)
	default:
		if c.engine == Windlass {
			answer = snapshot.OwnStops(c.inventory(), c.state.Target, answer)
		}
		c.state.Source, c.recordedPlan = answer, &answer
		c.notKnown = append(c.notKnown, "the plan is the one in the Cluster's status: "+upgrade.SourceProblem)
	}
}

// decide asks the rules what is due, and what comes. A plan in the Cluster's status may be older than what
// has happened since: it is no proof that there is no way to the target.
func (c *chainComputation) decide(now time.Time) {
	c.askRules(now)
	recorded, isRecorded := c.recordedPlan, c.recordedPlan != nil
	if !isRecorded || c.decision.Reason != chain.NoPath {
		return
	}
	if len(recorded.Workers) > 0 && recorded.Workers[0].Equal(c.state.ControlPlane.Version) {
		// The last group has begun to go there.
		recorded.Workers = recorded.Workers[1:]
		c.state.Source = *recorded
		c.askRules(now)
	}
	if c.decision.Reason == chain.NoPath {
		c.state.Source, c.state.SourceProblem = nil, "the upgrade plan in the Cluster's status is outdated: "+c.decision.Message
		c.notKnown = append(c.notKnown, "what comes: "+c.state.SourceProblem)
		c.askRules(now)
	}
}

// askRules asks the rules with the present source of the plan.
func (c *chainComputation) askRules(now time.Time) {
	if c.engine == Windlass {
		c.decision = chain.Decide(c.state, now)
		if c.state.SourceProblem == "" {
			c.next = c.operations(now)
		}
		return
	}
	c.next = c.shareStops()
	c.decision = chain.Decide(c.state, now)
	// What our engine would record first, another one knows otherwise, or not at all.
	recorded := c.recorded
	for range maxNotes {
		note, isNote := c.decision.Action.(chain.Note)
		if !isNote {
			return
		}
		recorded = note.Record.Apply(recorded, c.state.ControlPlane.Version, now)
		c.state.Pending, c.state.Intent = recorded.Pending, recorded.Intent
		if recorded.Chain != nil {
			c.state.ChainTarget = recorded.Chain.Target
		}
		c.decision = chain.Decide(c.state, now)
	}
}

// operations are those that are left. The rules plan none while the Cluster is paused.
func (c *chainComputation) operations(now time.Time) []plan.Operation {
	if !c.state.Paused {
		return c.decision.Plan.Operations
	}
	unpaused := c.state
	unpaused.Paused = false
	return chain.Decide(unpaused, now).Plan.Operations
}

// maxNotes bounds how many records are looked past; no state of the rules has more than a few in a row.
const maxNotes = 8

// shareStops plans as Cluster API does, with one list of stops for all groups, and makes the rules follow that list. Without a plan
// the rules say why there is none.
func (c *chainComputation) shareStops() []plan.Operation {
	inventory := c.inventory()
	shared, err := plan.Compute(plan.Request{Inventory: inventory, Target: c.state.Target, Source: c.state.Source})
	if err != nil || c.state.SourceProblem != "" {
		return nil
	}
	c.state.Source = plan.Response{ControlPlane: shared.ControlPlane, Workers: shared.Workers}
	return shared.Operations
}

func (c *chainComputation) inventory() plan.Inventory {
	inventory := plan.Inventory{ControlPlane: c.state.ControlPlane.Version, WorkersUpgrading: c.state.Pending.Has(chain.AfterWorkersUpgrade)}
	for _, g := range c.state.Groups {
		if g.Exists && !g.Deleting {
			inventory.Groups = append(inventory.Groups, plan.Group{Name: g.Name, Kind: g.Kind, Version: g.Oldest})
		}
	}
	return inventory
}

// isBrief reports whether an action usually is over within a second. A hook that holds the upgrade is not.
func isBrief(a chain.Action, state ChainState) bool {
	switch a.(type) {
	case chain.CallHook:
		return state == ChainUpgrading
	case chain.Note, chain.RaiseWorkers:
		return true
	default:
		return false
	}
}

// describeNow says what is due, as the rules have it.
func describeNow(d chain.Decision) string {
	if d.Reason == chain.NoSource {
		return "what comes is not known from here"
	}
	switch action := d.Action.(type) {
	case chain.CallHook:
		text := fmt.Sprintf("hook %s", action.Hook)
		if !action.Step.IsZero() {
			text += " for " + action.Step.String()
		}
		return text + " is due"
	case chain.Note:
		return "records: " + d.Message
	case chain.RaiseWorkers:
		return "begins: " + d.Message
	case chain.Wait:
		if d.Reason == chain.WorkersUpgrading || d.Reason == chain.WorkersShort {
			return "waits for " + d.Message
		}
		return d.Message
	case chain.RaiseControlPlane, chain.Create:
		return d.Message
	default:
		return d.Message
	}
}

func (c *chainComputation) chainState(report Chain) ChainState {
	switch c.decision.Reason {
	case chain.Paused:
		return ChainPaused
	case chain.DeletingCluster:
		return ChainDeleting
	case chain.Creating, chain.ControlPlaneProvisioning:
		return ChainCreating
	case chain.UpToDate:
		if isRunning(report.Steps) {
			return ChainUpgrading
		}
		return c.restingState()
	case chain.CreatingGroups, chain.ControlPlaneUpgrading, chain.NotTakenBack, chain.ControlPlaneStep, chain.WorkersStep, chain.WorkersUpgrading, chain.WorkersShort,
		chain.WorkersDeferred, chain.GroupsLeaving, chain.HookDue, chain.HookBlocking, chain.HookFailed, chain.BlockedByAnnotation, chain.Recording, chain.NoPath, chain.NoSource:
	}
	return c.movingState(report)
}

// movingState is where a Cluster is that is neither paused nor at rest for certain.
func (c *chainComputation) movingState(report Chain) ChainState {
	running := isRunning(report.Steps)
	_, waits := c.decision.Action.(chain.Wait)
	_, unannounced := c.unannounced()
	held := slices.ContainsFunc(report.Holds, func(h Hold) bool { return h.Kind != HeldByMachines })
	switch {
	case c.state.Deleting:
		return ChainDeleting
	case !c.state.ControlPlane.Exists:
		return ChainCreating
	case waits && !c.isUnderWay():
		return c.restingState()
	case held && !running, unannounced:
		return ChainHeld
	default:
		return ChainUpgrading
	}
}

func isRunning(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return s.State == StepRunning })
}

// restingState is where an upgrade is when there is none.
func (c *chainComputation) restingState() ChainState {
	if c.beingCreated() {
		return ChainCreating
	}
	return ChainUpToDate
}

// disagreement says where what the controller last said does not fit what the objects say: it may be down, or just about to look.
func (c *chainComputation) disagreement(state ChainState) string {
	const down = ": its controller has not looked since, or is down"
	condition := c.condition
	switch {
	case condition == nil:
		return "no controller has reported on the topology yet:  the Cluster has no condition TopologyReconciled"
	case condition.ObservedGeneration > 0 && condition.ObservedGeneration < c.facts.Cluster.Generation:
		return fmt.Sprintf("the condition TopologyReconciled is about generation %d of the Cluster, which is at %d%s",
			condition.ObservedGeneration, c.facts.Cluster.Generation, down)
	case condition.Status == metav1.ConditionTrue && (state == ChainUpgrading || state == ChainHeld):
		return "the condition TopologyReconciled reports that nothing is left to do, but the objects show an unfinished upgrade" + down
	case speaksOfUpgrade(*condition) && state == ChainUpToDate && c.offSpec == 0:
		return "the condition TopologyReconciled reports an upgrade, but the objects show that it is done" + down
	}
	if hooks := c.hooksOutOfTurn(); len(hooks) > 0 {
		return fmt.Sprintf("the condition TopologyReconciled reports that %s is blocking, but by the objects this hook is not due%s", joinHooks(hooks), down)
	}
	return ""
}

func speaksOfUpgrade(condition metav1.Condition) bool {
	return condition.Status == metav1.ConditionFalse && slices.Contains([]string{
		clusterv1.ClusterTopologyReconciledClusterUpgradingReason, clusterv1.ClusterTopologyReconciledMachineDeploymentsUpgradeDeferredReason,
		clusterv1.ClusterTopologyReconciledMachinePoolsUpgradeDeferredReason,
	}, condition.Reason)
}

// hooksOutOfTurn are those that the condition says are blocking, although another one is due, or none.
func (c *chainComputation) hooksOutOfTurn() []chain.Hook {
	for _, line := range snapshot.BlockingLines(c.condition) {
		if hooks := hooksIn(line); c.outOfTurn(hooks) {
			return hooks
		}
	}
	return nil
}

// outOfTurn reports whether another hook than these is due, or none.
func (c *chainComputation) outOfTurn(hooks []chain.Hook) bool {
	if c.decision.Reason == chain.BlockedByAnnotation {
		// Cluster API shows such an annotation as an answer of the hook.
		return false
	}
	due, called := c.decision.Action.(chain.CallHook)
	return len(hooks) > 0 && (!called || !slices.Contains(hooks, due.Hook))
}
