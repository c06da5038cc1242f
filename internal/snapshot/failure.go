package snapshot

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/text"
)

// Failure is the error for which the controller of the topology takes no step.
type Failure struct {
	// Message is that of the Cluster's condition, at most 1 KiB in one line. Fix is what a person can do.
	Message, Fix string
	// NoPath says that no plan leads to the target. Cluster API has one reason for that and for others.
	NoPath bool
}

// TopologyCondition returns the Cluster's condition TopologyReconciled; nil if there is none.
func TopologyCondition(cluster *clusterv1.Cluster) *metav1.Condition {
	return meta.FindStatusCondition(
		cluster.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition)
}

// maxFailureBytes bounds the message of a Failure.
const maxFailureBytes = 1024

// TopologyFailure returns the error that a Cluster's condition TopologyReconciled has; ok is false if
// it has none. A controller that waits for a hook or for machines has no error.
func TopologyFailure(cluster *clusterv1.Cluster) (f Failure, ok bool) {
	c := TopologyCondition(cluster)
	failed := c != nil && c.Status == metav1.ConditionFalse &&
		c.Reason == clusterv1.ClusterTopologyReconciledFailedReason
	if !failed {
		return Failure{}, false
	}
	f.Message = text.Bound(c.Message, maxFailureBytes)
	f.NoPath = containsAny(c.Message, "upgrade path", "upgrade plan", "GenerateUpgradePlan", "the plan from ")
	// The messages of Windlass have their own way out.
	if before, fix, has := strings.Cut(f.Message, "Fix: "); has {
		f.Message, f.Fix = strings.TrimRight(before, ". "), fix
		return f, true
	}
	f.Fix = fixTopology(c.Message, f.NoPath)
	return f, true
}

// fixTopology says what a person can do about an error with a message.
func fixTopology(message string, noPath bool) string {
	const immutable = "see docs/runbooks.md, A template that is immutable"
	switch {
	case noPath:
		return "windlass plan says which versions are missing; see docs/runbooks.md, WindlassUpgradePathLost"
	case !strings.Contains(message, "immutable"):
		return "correct what the message names; the controller then continues by itself. " +
			"See docs/runbooks.md, WindlassUpgradeHeld"
	case strings.Contains(message, "dry-run") && strings.Contains(message, "Template"):
		return "update the provider of that template to a release that admits the dry run of the topology's " +
			"controller, or replace the template by hand; " + immutable
	}
	return "take back the change of that field: the variable, or the patch or template of the " +
		"ClusterClass, that asks for it; " + immutable
}

func containsAny(message string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(message, part) })
}
