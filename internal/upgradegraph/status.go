package upgradegraph

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/condition"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// ComputeStatus returns the status that a graph should have. All graphs are needed because two must not serve one class;
// the graph itself may be among them. now becomes the time of a condition that changes; one that does not keeps its own.
func ComputeStatus(graph *v1alpha1.UpgradeGraph, all []v1alpha1.UpgradeGraph, now metav1.Time) v1alpha1.UpgradeGraphStatus {
	status := *graph.Status.DeepCopy()
	status.ObservedGeneration = graph.Generation
	status.OldestVersion, status.NewestVersion = "", ""
	ready := metav1.Condition{
		Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.UpgradeGraphValidReason,
		ObservedGeneration: graph.Generation, LastTransitionTime: now,
	}
	parsed, err := Parse(graph.Spec)
	if err != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.UpgradeGraphInvalidReason, err.Error()
	} else {
		sorted := version.Sorted(parsed.Versions)
		status.OldestVersion, status.NewestVersion = sorted[0].String(), sorted[len(sorted)-1].String()
		if found := conflicts(graph, all); len(found) > 0 {
			ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.UpgradeGraphClassConflictReason, describeConflicts(found)
		}
	}
	condition.SetReady(&status.Conditions, ready, err != nil)
	return status
}

func describeConflicts(found []conflict) string {
	some := text.Some{Most: maxProblems}
	for _, c := range found {
		some.Add(c.String())
	}
	return some.Join("; ") + "; upgrades of these classes stop until only one graph serves each"
}
