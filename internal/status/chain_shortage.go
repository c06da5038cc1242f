package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// machineHolds are for machines that do not come or go: of the control plane and of groups on their way, where their own conditions say that they are
// blocked, and of groups that have arrived and lack machines.
func (c *chainComputation) machineHolds() []Hold {
	if c.state.Deleting {
		return nil
	}
	holds := c.controlPlaneHolds()
	short := 0
	for _, g := range c.state.Groups {
		hold, lacks := c.groupHold(g)
		if lacks {
			short++
		}
		if hold.Message != "" && (!lacks || short <= shownGroups) {
			holds = append(holds, hold)
		}
	}
	if more := short - shownGroups; more > 0 {
		holds = append(holds, Hold{Kind: HeldByMachines, By: fmt.Sprintf("%d more groups", more), Message: "they lack machines too"})
	}
	return holds
}

// controlPlaneHolds are for the machines of a control plane that is on its way.
func (c *chainComputation) controlPlaneHolds() []Hold {
	cp := c.state.ControlPlane
	if !cp.Exists || cp.Provisioned && !cp.Upgrading {
		return nil
	}
	var holds []Hold
	object := c.facts.ControlPlane
	if message, since := blockedMessage(capi.Conditions(object)); message != "" {
		holds = append(holds, Hold{
			Kind: HeldByMachines, By: ControlPlaneGroup, Message: message,
			Since: since.UTC(), AtEarliest: true,
		})
	}
	group := snapshot.ControlPlaneGroup(c.facts.Cluster, object)
	_, selected := selectPolicy(policy.CompileAll(c.facts.Policies), group)
	if message := stuckControlPlane(c.facts, selected); message != "" {
		holds = append(holds, Hold{Kind: HeldByMachines, By: ControlPlaneGroup, Message: message})
	}
	if s, ok := snapshot.RolloutStandstill(c.facts.Objects, c.facts.Around); ok && s.IsLong(c.now) {
		holds = append(holds, Hold{
			Kind: HeldByMachines, By: ControlPlaneGroup, Message: s.Sentence(), Since: s.Since,
		})
	}
	return holds
}

// groupHold is what blocks the machines of one group, without a message where nothing does; lacks says that it has arrived and lacks machines.
func (c *chainComputation) groupHold(g chain.Group) (hold Hold, lacks bool) {
	if !g.Exists || g.Deleting {
		return Hold{}, false
	}
	message, since := blockedMessage(c.groupConditions(g))
	hold = Hold{Kind: HeldByMachines, By: g.Name, Message: message, Since: since.UTC(), AtEarliest: message != ""}
	if g.Upgrading {
		return cmp.Or(c.standingWorkers(g), hold), false
	}
	has, wants := c.countGroup(g, g.Version)
	if g.Kind != plan.MachineDeployment || has >= wants || c.beingCreated() && message == "" {
		return Hold{}, false
	}
	hold.Message = strings.TrimSuffix(fmt.Sprintf("%d of %d machines at %s are there: %s", has, wants, g.Version, message), ": ")
	return hold, true
}

// standingWorkers is the hold of a group whose rollout makes no progress; zero without one.
func (c *chainComputation) standingWorkers(g chain.Group) Hold {
	for _, md := range c.facts.MachineDeployments {
		if g.Kind != plan.MachineDeployment || md.Labels[deploymentLabel] != g.Name {
			continue
		}
		if s, ok := snapshot.WorkerStandstill(md, c.facts.Objects, c.facts.Around, c.now); ok {
			return Hold{Kind: HeldByMachines, By: g.Name, Message: s.Sentence(), Since: s.Since}
		}
	}
	return Hold{}
}

// groupConditions are those of a MachineDeployment, then those of its MachineSets, which tell of single Machines.
func (c *chainComputation) groupConditions(g chain.Group) []metav1.Condition {
	if g.Kind != plan.MachineDeployment {
		return nil
	}
	const label = clusterv1.ClusterTopologyMachineDeploymentNameLabel
	var conditions []metav1.Condition
	for _, md := range c.facts.MachineDeployments {
		if md.Labels[label] == g.Name {
			conditions = append(conditions, md.Status.Conditions...)
		}
	}
	byName := func(a, b *clusterv1.MachineSet) int { return strings.Compare(a.Name, b.Name) }
	sets := slices.SortedFunc(slices.Values(c.facts.Rollouts.MachineSets), byName)
	for _, ms := range sets {
		if ms.Labels[label] == g.Name {
			conditions = append(conditions, ms.Status.Conditions...)
		}
	}
	return conditions
}

// blockedMessage is the first message of a condition about Machines that are made or deleted that names an obstacle; empty where there is none. Of
// one that tells only that it goes on there is nothing to say. since is when the condition got its state.
func blockedMessage(conditions []metav1.Condition) (message string, since metav1.Time) {
	for _, kind := range []string{clusterv1.ScalingUpCondition, clusterv1.ScalingDownCondition, clusterv1.RollingOutCondition} {
		for _, condition := range conditions {
			if condition.Type == kind && condition.Status != metav1.ConditionFalse && namesObstacle(condition.Message) {
				return bound(condition.Message), condition.LastTransitionTime
			}
		}
	}
	return "", metav1.Time{}
}

// namesObstacle goes by the words with which Cluster API and API servers tell of checks before a Machine is made or deleted, of webhooks, and of errors.
func namesObstacle(message string) bool {
	lower := strings.ToLower(message)
	return slices.ContainsFunc([]string{"blocked", "webhook", "preflight", "denied", "fail", "error"}, func(word string) bool { return strings.Contains(lower, word) })
}

// longestMessage bounds, in runes, what is shown of an object's own message.
const longestMessage = 400

// bound makes one line of a message.
func bound(message string) string {
	text := []rune(strings.Join(strings.Fields(message), " "))
	if len(text) > longestMessage {
		return string(text[:longestMessage]) + "…"
	}
	return string(text)
}

// beingCreated reports whether the control plane has not been initialized yet.
func (c *chainComputation) beingCreated() bool {
	initialized := meta.FindStatusCondition(c.facts.Cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition)
	return initialized != nil && initialized.Status != metav1.ConditionTrue || initialized == nil && len(c.facts.Machines) == 0
}
