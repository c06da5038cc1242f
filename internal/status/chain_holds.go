package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/text"
)

// holds lists what keeps the upgrade from going on: what the rules see on the objects, then what the controller says of hooks, then gates,
// which know exactly since when.
func (c *chainComputation) holds() []Hold {
	holds, gates := c.ruleHolds(), c.gateHolds()
	if c.decision.Reason != chain.UpToDate {
		for _, line := range snapshot.BlockingLines(c.condition) {
			if hold, isNew := c.conditionHold(line, holds); isNew {
				holds = append(holds, c.sinceGates(hold, gates))
			}
		}
	}
	if failure, failed := c.failure(); failed && !slices.ContainsFunc(holds, func(h Hold) bool { return h.Message == failure.Message }) {
		holds = append(holds, failure)
	}
	if hold, unannounced := c.unannounced(); unannounced {
		holds = append(holds, hold)
	}
	return slices.Concat(holds, gates, c.machineHolds(), c.joinHolds())
}

// unannounced is that Cluster API's own engine has not announced the step of the control plane.
func (c *chainComputation) unannounced() (Hold, bool) {
	f, since, ok := snapshot.UnannouncedStep(c.facts.Objects)
	return Hold{
		Kind: HeldByFailure, By: "the topology's controller", Since: since, AtEarliest: true,
		Message: f.Message + ". Fix: " + f.Fix,
	}, ok && c.engine == ClusterAPI
}

// conditionHold reads a line of the condition that says that something is blocking. An annotation that the rules have seen is not told twice.
func (c *chainComputation) conditionHold(line string, holds []Hold) (hold Hold, isNew bool) {
	hold = Hold{Kind: HeldByHook, By: cmp.Or(joinHooks(hooksIn(line)), "a hook"), Message: line, Since: c.earliest(), AtEarliest: true}
	if c.outOfTurn(hooksIn(line)) {
		// The Cluster has continued since that hook answered, so its time is not this hold's.
		hold.Since, hold.AtEarliest = time.Time{}, false
	}
	if !strings.Contains(line, clusterv1.BeforeClusterUpgradeHookAnnotationPrefix) {
		hold.Message += c.server()
		return hold, true
	}
	hold.Kind, hold.By = HeldByAnnotation, "an annotation"
	return hold, !slices.ContainsFunc(holds, func(h Hold) bool { return h.Kind == HeldByAnnotation })
}

// server tells which extension serves the hook that holds the upgrade, and the way out if it has held for
// long; empty if that is not known.
func (c *chainComputation) server() string {
	stands, known := snapshot.HookStandstill(c.facts.Objects, c.facts.Around)
	switch {
	case !known:
		return ""
	case stands.IsLong(c.now):
		return "; it is served by " + stands.By + ". Fix: " + stands.Fix
	}
	return "; it is served by " + stands.By
}

// sinceGates tells of a hook since when it holds where gates answer it: they know exactly.
func (c *chainComputation) sinceGates(hold Hold, gates []Hold) Hold {
	due, called := c.decision.Action.(chain.CallHook)
	if hold.Kind != HeldByHook || !called || !slices.Contains(hooksIn(hold.Message), due.Hook) {
		return hold
	}
	for _, g := range gates {
		if hold.AtEarliest || g.Since.Before(hold.Since) {
			hold.Since, hold.AtEarliest = g.Since, false
		}
	}
	return hold
}

// ruleHolds are what anybody can see who looks at the objects.
func (c *chainComputation) ruleHolds() []Hold {
	d := c.decision
	switch d.Reason {
	case chain.Paused:
		return []Hold{{Kind: HeldByPause, By: "spec.paused, or the annotation " + clusterv1.PausedAnnotation, Message: d.Message}}
	case chain.NoPath:
		return []Hold{{Kind: HeldByRule, By: "the plan", Message: d.Message}}
	case chain.NotTakenBack:
		if c.engine == Windlass {
			return []Hold{{Kind: HeldByRule, By: "the plan", Message: d.Message}}
		}
	case chain.BlockedByAnnotation:
		return []Hold{{Kind: HeldByAnnotation, By: text.JoinSome(c.state.Blockers, shownGroups, ", "), Message: d.Message, Since: c.earliest(), AtEarliest: true}}
	case chain.WorkersDeferred:
		return []Hold{{Kind: HeldByAnnotation, By: strings.Join(c.deferrals(), ", "), Message: d.Message, Since: c.earliest(), AtEarliest: true}}
	case chain.UpToDate, chain.DeletingCluster, chain.Creating, chain.CreatingGroups, chain.ControlPlaneProvisioning, chain.ControlPlaneUpgrading,
		chain.ControlPlaneStep, chain.WorkersStep, chain.WorkersUpgrading, chain.WorkersShort, chain.GroupsLeaving, chain.HookDue, chain.HookBlocking, chain.HookFailed, chain.Recording, chain.NoSource:
	}
	return nil
}

// deferrals are the annotations that keep groups back.
func (c *chainComputation) deferrals() []string {
	var found []string
	if slices.ContainsFunc(c.state.Groups, func(g chain.Group) bool { return g.Defer }) {
		found = append(found, clusterv1.ClusterTopologyDeferUpgradeAnnotation)
	}
	if slices.ContainsFunc(c.state.Groups, func(g chain.Group) bool { return g.Hold }) {
		found = append(found, clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation)
	}
	return found
}

// earliest is a time before which what holds the upgrade now cannot have begun: the last thing that is known to have gone on. The
// condition tells only when it turned False, which may be long before.
func (c *chainComputation) earliest() time.Time {
	var at time.Time
	if c.condition != nil && c.condition.Status == metav1.ConditionFalse {
		at = c.condition.LastTransitionTime.UTC()
	}
	if p := c.progress(); p != nil {
		times := []time.Time{p.Began}
		for _, s := range p.Steps {
			times = append(times, s.Began, s.ControlPlane, s.Workers)
		}
		for _, t := range times {
			if t.After(at) {
				at = t.UTC()
			}
		}
	}
	return at
}

// failure is the error that the condition has, and what to do.
func (c *chainComputation) failure() (Hold, bool) {
	failure, failed := snapshot.TopologyFailure(c.facts.Cluster)
	if !failed {
		return Hold{}, false
	}
	message := c.condition.Message
	if !strings.Contains(message, "Fix: ") {
		message = fmt.Sprintf("%s. Fix: %s", strings.TrimRight(message, ". "), failure.Fix)
	}
	return Hold{
		Kind: HeldByFailure, By: cmp.Or(joinHooks(hooksIn(message)), "the topology's controller"),
		Message: message, Since: c.earliest(), AtEarliest: true,
	}, true
}

func hooksIn(text string) []chain.Hook {
	var found []chain.Hook
	for _, h := range []chain.Hook{
		chain.BeforeClusterCreate, chain.AfterControlPlaneInitialized, chain.BeforeClusterUpgrade, chain.BeforeControlPlaneUpgrade, chain.AfterControlPlaneUpgrade,
		chain.BeforeWorkersUpgrade, chain.AfterWorkersUpgrade, chain.AfterClusterUpgrade, chain.BeforeClusterDelete,
	} {
		if strings.Contains(text, string(h)) {
			found = append(found, h)
		}
	}
	return found
}

func joinHooks(hooks []chain.Hook) string {
	names := make([]string, len(hooks))
	for i, h := range hooks {
		names[i] = string(h)
	}
	return strings.Join(names, ", ")
}

// gateHolds are the gates at which the Cluster waits. A gate learns that the Cluster has gone on only when it is asked again, so one counts
// only where its step is due.
func (c *chainComputation) gateHolds() []Hold {
	due, called := c.decision.Action.(chain.CallHook)
	if !called {
		return nil
	}
	var holds []Hold
	for _, g := range c.facts.Upgrade.Gates {
		for _, w := range g.Status.Waiting {
			if w.ClusterUID != string(c.facts.Cluster.UID) || string(w.At) != string(due.Hook) || w.Version != due.Step.String() {
				continue
			}
			hold := Hold{Kind: HeldByGate, By: g.Name, Message: w.Message, Since: w.Since.UTC()}
			if a, approved := approvalOf(&g, w); approved {
				hold.Approved, hold.Message = true, c.describeApproval(a)
			}
			holds = append(holds, hold)
		}
	}
	slices.SortFunc(holds, func(a, b Hold) int { return cmp.Compare(a.By, b.By) })
	return holds
}

// approvalOf returns the approval that a gate asked for when it was asked last. It counts when the gate is asked
// again.
func approvalOf(g *v1alpha1.UpgradeGate, w v1alpha1.GateWaiting) (a v1alpha1.GateApprovalRecord, ok bool) {
	step, ok := gate.StepOf(w.At, w.Version)
	if !ok || !gate.AsksForApproval(w.Message) {
		return a, false
	}
	return gate.FindApproval(g, gate.Cluster{UID: w.ClusterUID}, step)
}

// isPending reports whether the gate is still to be asked again after an approval. If it was not in time, who asks
// does not run, and that needs a person.
func isPending(a v1alpha1.GateApprovalRecord, now time.Time) bool {
	const late = time.Minute
	return now.Before(a.Time.Add(gate.LongestRetry + late))
}

// describeApproval says who has approved, and when the gate is asked again. It replaces the gate's last answer,
// which came before the approval.
func (c *chainComputation) describeApproval(a v1alpha1.GateApprovalRecord) string {
	asker, soon := "Cluster API", ""
	if c.engine == Windlass {
		asker, soon = "windlass manager", "usually at once, and "
	}
	clock := func(at time.Time) string { return at.UTC().Format(time.RFC3339) }
	return fmt.Sprintf("approved by %s at %s; %s asks the gate again %sby %s if it runs",
		cmp.Or(a.By, "somebody"), clock(a.Time.Time), asker, soon, clock(a.Time.Add(gate.LongestRetry)))
}
