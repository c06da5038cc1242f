package judge

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/history"
)

// hooks are those that can hold an upgrade.
var hooks = []string{
	"BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade",
	"BeforeWorkersUpgrade", "AfterWorkersUpgrade", "AfterClusterUpgrade",
}

// holdAll finds what holds the upgrade, and who must act.
func (w *world) holdAll(a Answers, holds map[string]bool) {
	cluster, ok := w.cluster.Object.(*clusterv1.Cluster)
	if !ok {
		return
	}
	_, paused := cluster.Annotations[clusterv1.PausedAnnotation]
	if paused || cluster.Spec.Paused != nil && *cluster.Spec.Paused {
		holds[pause] = true
		a[Question{MustAct, "who resumes"}] = is(Yes)
	}
	condition := w.cluster.Reconciled()
	if condition.Status == metav1.ConditionFalse {
		switch condition.Reason {
		case clusterv1.ClusterTopologyReconciledFailedReason:
			holds["failure"] = true
			a[Question{MustAct, "who corrects"}] = is(Yes)
			return
		case clusterv1.ClusterTopologyReconciledMachineDeploymentsUpgradeDeferredReason,
			clusterv1.ClusterTopologyReconciledMachinePoolsUpgradeDeferredReason:
			holds["annotation"] = true
		}
		if strings.Contains(condition.Message, "the step is not taken back") {
			w.holdStep(a, holds)
		}
	}
	if w.underWay && hasBlocker(cluster) && !holds["annotation"] {
		// Whether it counts depends on what the controller has begun. It says so when it looks.
		a[Question{HeldBy, "annotation"}] = is(Yes, "")
	}
	for _, hook := range blockingHooks(condition) {
		holds["hook "+hook] = true
		w.holdGates(a, holds, hook)
	}
	for _, owner := range w.parts() {
		c := owner.Condition(v1alpha1.UpdateBlockedCondition)
		if c != nil && c.Status == metav1.ConditionTrue {
			holds[owner.Kind+" "+owner.Name] = true
		}
	}
}

// hasBlocker reports whether a Cluster, or a group in its topology, has an annotation that may hold
// an upgrade.
func hasBlocker(c *clusterv1.Cluster) bool {
	keys := slices.Collect(maps.Keys(c.Annotations))
	for _, group := range c.Spec.Topology.Workers.MachineDeployments {
		keys = slices.AppendSeq(keys, maps.Keys(group.Metadata.Annotations))
	}
	return slices.ContainsFunc(keys, func(key string) bool {
		return strings.HasPrefix(key, clusterv1.BeforeClusterUpgradeHookAnnotationPrefix) ||
			key == clusterv1.ClusterTopologyDeferUpgradeAnnotation ||
			key == clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation
	})
}

// holdStep is for a step that cannot end, as the controller says. Until it looks again, that may be
// over.
func (w *world) holdStep(a Answers, holds map[string]bool) {
	joined := slices.ContainsFunc(w.machines, func(m history.Fact) bool {
		return m.Group == "" && m.Version == w.controlPlane.Version && m.Reported != ""
	})
	if joined {
		a[Question{HeldBy, "failure"}] = is(Yes, "")
		a[Question{MustAct, "who corrects"}] = is(Yes, "")
		return
	}
	holds["failure"] = true
	a[Question{MustAct, "who corrects"}] = is(Yes)
}

func (w *world) holdGates(a Answers, holds map[string]bool, hook string) {
	for _, f := range w.gates {
		gate, ok := f.Object.(*v1alpha1.UpgradeGate)
		if !ok {
			continue
		}
		for _, waiting := range gate.Status.Waiting {
			if waiting.ClusterUID != string(w.cluster.UID) || string(waiting.At) != hook {
				continue
			}
			holds["gate "+gate.Name] = true
			if gate.Spec.Requires.Approval != nil && !isApproved(gate, waiting) {
				a[Question{MustAct, "who approves at " + gate.Name}] = is(Yes)
			}
		}
	}
}

func isApproved(gate *v1alpha1.UpgradeGate, waiting v1alpha1.GateWaiting) bool {
	return slices.ContainsFunc(gate.Status.Approvals, func(a v1alpha1.GateApprovalRecord) bool {
		return a.ClusterUID == waiting.ClusterUID && a.At == waiting.At &&
			a.Version == waiting.Version && a.Generation == gate.Generation
	})
}

// blockingHooks are the hooks that the controller says are blocking.
func blockingHooks(condition metav1.Condition) []string {
	var found []string
	for line := range strings.Lines(condition.Message) {
		if condition.Status != metav1.ConditionFalse || !strings.Contains(line, "blocking") {
			continue
		}
		for _, hook := range hooks {
			if strings.Contains(line, hook) && !slices.Contains(found, hook) {
				found = append(found, hook)
			}
		}
	}
	return found
}
