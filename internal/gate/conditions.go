package gate

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/condition"
	"github.com/windlass-dev/windlass/internal/labelselector"
	"github.com/windlass-dev/windlass/internal/text"
)

// ComputeStatus returns the status of a gate with the conditions that follow from its spec and from
// who waits. idle says that it is for no Cluster. now becomes the time of a condition that changes; one
// that does not keeps its own.
func ComputeStatus(g *v1alpha1.UpgradeGate, idle bool, now metav1.Time) v1alpha1.UpgradeGateStatus {
	status := *g.Status.DeepCopy()
	status.ObservedGeneration = g.Generation
	ready := metav1.Condition{
		Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.UpgradeGateValidReason,
		ObservedGeneration: g.Generation, LastTransitionTime: now,
	}
	problem := findProblem(g)
	if idle {
		ready.Reason, ready.Message = v1alpha1.UpgradeGateNoClustersReason, noClusters
	}
	if problem != "" {
		ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.UpgradeGateInvalidReason
		ready.Message = problem
	}
	condition.SetReady(&status.Conditions, ready, problem != "")
	condition.Set(&status.Conditions, computeWaitingCondition(g, now))
	return status
}

// noClusters is what a gate says that holds nothing: most often a name in it is misspelt.
const noClusters = "the gate is for no Cluster: none of its namespace matches spec.clusterName or spec.clusterSelector. " +
	"Fix: compare them with the names and labels of the Clusters"

// WasIdle reports whether a gate's status says that it is for no Cluster.
func WasIdle(g *v1alpha1.UpgradeGate) bool {
	ready := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ReadyCondition)
	return ready != nil && ready.Reason == v1alpha1.UpgradeGateNoClustersReason && len(g.Status.Waiting) == 0
}

// IsIdle reports whether a gate is for none of the Clusters of its namespace.
func IsIdle(g *v1alpha1.UpgradeGate, clusters []Cluster) bool {
	selector := labelselector.Parse(g.Spec.ClusterSelector)
	return !slices.ContainsFunc(clusters, func(c Cluster) bool {
		selected, _ := selectsCluster(g, selector, c)
		return selected
	})
}

const (
	// maxNamed is how many Clusters that wait a condition names. Each change of its message is a
	// write.
	maxNamed = 5
)

func computeWaitingCondition(g *v1alpha1.UpgradeGate, now metav1.Time) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.WaitingCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.NoClusterWaitsReason,
		ObservedGeneration: g.Generation, LastTransitionTime: now,
	}
	names := make([]string, 0, len(g.Status.Waiting))
	for _, w := range g.Status.Waiting {
		names = append(names, w.Cluster)
	}
	if len(names) > 0 {
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ClustersWaitReason
		c.Message = "these Clusters wait: " + text.JoinSome(names, maxNamed, ", ")
	}
	return c
}

// findProblem says why a gate cannot be evaluated; empty if it can. A gate is asked about some
// Clusters and steps only, so a fault may be in a part that no question has reached yet.
func findProblem(g *v1alpha1.UpgradeGate) string {
	if _, problem := SelectsCluster(g, Cluster{}); problem != "" {
		return problem
	}
	for i, s := range g.Spec.Steps {
		for j, v := range s.Versions {
			if _, err := ParseRelease(string(v)); err != nil {
				return describeVersion(i, j, err)
			}
		}
	}
	parsed := parse(g)
	if parsed.Problem != "" {
		return parsed.Problem
	}
	for _, check := range parsed.Checks {
		if !isKnown(check) {
			return describeUnknown(check)
		}
	}
	return ""
}

func describeVersion(step, version int, err error) string {
	return fmt.Sprintf("spec.steps[%d].versions[%d]: %v", step, version, err)
}

func isKnown(check Check) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return r.check == check })
}

func describeUnknown(check Check) string {
	return fmt.Sprintf("there is no check %q in this version of Windlass", check)
}
