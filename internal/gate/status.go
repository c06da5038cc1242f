package gate

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	// maxWaiting and maxApprovals are the bounds of the API. With them, and the bounds of texts, the largest gate takes less than
	// the 1.5 MiB that etcd and the API server take in one request.
	maxWaiting, maxApprovals = 300, 400
	// maxApprovalsPerCluster is how many approvals of one Cluster are kept at a gate: more than a chain of six minors has steps.
	maxApprovalsPerCluster = 64
	// maxUserBytes and maxMessageBytes are the bounds of the API.
	maxUserBytes, maxMessageBytes = 128, 256
	// youngest is far more than a cache is behind.
	youngest = time.Minute
)

// FindApproval returns the approval that counts for a step of a Cluster at a gate.
func FindApproval(g *v1alpha1.UpgradeGate, c Cluster, step Step) (v1alpha1.GateApprovalRecord, bool) {
	for _, a := range g.Status.Approvals {
		if isFor(c, step)(a) && !IsOutdated(g, a) {
			return a, true
		}
	}
	return v1alpha1.GateApprovalRecord{}, false
}

// IsOutdated reports whether an approval was given before the spec of its gate was changed. It does not count: what was approved was
// another gate.
func IsOutdated(g *v1alpha1.UpgradeGate, a v1alpha1.GateApprovalRecord) bool {
	return a.Generation != g.Generation
}

func isFor(c Cluster, step Step) func(v1alpha1.GateApprovalRecord) bool {
	return func(a v1alpha1.GateApprovalRecord) bool {
		approved, ok := StepOf(a.At, a.Version)
		return ok && a.ClusterUID == c.UID && approved.Covers(step)
	}
}

// StepOf reads a step as it is recorded.
func StepOf(at v1alpha1.GateHook, recorded string) (step Step, ok bool) {
	parsed, err := version.Parse(recorded)
	return Step{Hook: Hook(at), Version: parsed}, err == nil
}

// ComputeApproved returns the approvals of a gate with one more. A step that was approved stays as it is. What another Cluster of
// the same name had is dropped, and what is outdated of the step, and, where there are too many, the oldest.
func ComputeApproved(g *v1alpha1.UpgradeGate, c Cluster, step Step, by string, now time.Time) []v1alpha1.GateApprovalRecord {
	if _, ok := FindApproval(g, c, step); ok {
		return g.Status.Approvals
	}
	kept := slices.DeleteFunc(slices.Clone(g.Status.Approvals), func(a v1alpha1.GateApprovalRecord) bool {
		return a.Cluster == c.Name && a.ClusterUID != c.UID || isFor(c, step)(a)
	})
	// Newest last. Their times do not count: clocks differ and jump.
	kept = append(kept, v1alpha1.GateApprovalRecord{
		Cluster: c.Name, ClusterUID: c.UID, At: v1alpha1.GateHook(step.Hook), Version: step.Version.String(), Generation: g.Generation,
		By: text.Bound(by, maxUserBytes), Time: metav1.NewTime(now.UTC().Truncate(time.Second)),
	})
	ofCluster := 0
	for _, a := range kept {
		if a.ClusterUID == c.UID {
			ofCluster++
		}
	}
	kept = slices.DeleteFunc(kept, func(a v1alpha1.GateApprovalRecord) bool {
		if a.ClusterUID != c.UID || ofCluster <= maxApprovalsPerCluster {
			return false
		}
		ofCluster--
		return true
	})
	return kept[max(0, len(kept)-maxApprovals):]
}

// ComputeRevoked returns the approvals of a gate without one.
func ComputeRevoked(approvals []v1alpha1.GateApprovalRecord, c Cluster, step Step) []v1alpha1.GateApprovalRecord {
	return slices.DeleteFunc(slices.Clone(approvals), isFor(c, step))
}

// ComputeEnded returns the approvals of a gate after a Cluster's upgrade has passed its last step. That of the last step itself stays:
// where other extensions hold the step, it is asked about again.
func ComputeEnded(approvals []v1alpha1.GateApprovalRecord, c Cluster, last Step) []v1alpha1.GateApprovalRecord {
	return slices.DeleteFunc(slices.Clone(approvals), func(a v1alpha1.GateApprovalRecord) bool {
		return a.ClusterUID == c.UID && !isFor(c, last)(a)
	})
}

// ComputeExisting returns the approvals of a gate without those of Clusters that do not exist any more.
// One that was given less than youngest from now stays, by a clock that may be ahead: who reads from a
// cache may not know its Cluster yet.
func ComputeExisting(approvals []v1alpha1.GateApprovalRecord, exists func(name, uid string) bool, now time.Time) []v1alpha1.GateApprovalRecord {
	return slices.DeleteFunc(slices.Clone(approvals), func(a v1alpha1.GateApprovalRecord) bool {
		return !exists(a.Cluster, a.ClusterUID) && now.Sub(a.Time.Time).Abs() > youngest
	})
}

// ComputeWaiting returns the status of a gate after it was asked about a step of a Cluster: with the Cluster among those that wait if
// there is a message, without it if not, since a Cluster waits at one step at a time. Clusters that do not exist any more are left
// out. Where the list is full, a Cluster is left out until there is room: to drop another instead, which is added again when it is asked
// about, would write the gate with every question. The second result tells whether anything has changed.
func ComputeWaiting(status v1alpha1.UpgradeGateStatus, c Cluster, step Step, message string, exists func(name, uid string) bool, now time.Time) (v1alpha1.UpgradeGateStatus, bool) {
	wanted := slices.Clone(status.Waiting)
	wanted = slices.DeleteFunc(wanted, func(w v1alpha1.GateWaiting) bool {
		return w.Cluster == c.Name || !exists(w.Cluster, w.ClusterUID)
	})
	if message != "" && exists(c.Name, c.UID) && len(wanted) < maxWaiting {
		wanted = append(wanted, v1alpha1.GateWaiting{
			Cluster: c.Name, ClusterUID: c.UID, At: v1alpha1.GateHook(step.Hook), Version: step.Version.String(),
			Since: since(status.Waiting, c, step, now), Message: text.Bound(message, maxMessageBytes),
		})
	}
	slices.SortFunc(wanted, func(a, b v1alpha1.GateWaiting) int { return cmp.Compare(a.Cluster, b.Cluster) })
	changed := !slices.Equal(wanted, status.Waiting)
	status.Waiting, status.WaitingCount = wanted, int32(len(wanted)) //nolint:gosec // It is at most maxWaiting.
	return status, changed
}

// since is when a Cluster began to wait at a step.
func since(waiting []v1alpha1.GateWaiting, c Cluster, step Step, now time.Time) metav1.Time {
	for _, w := range waiting {
		if w.ClusterUID == c.UID && Hook(w.At) == step.Hook && w.Version == step.Version.String() {
			return w.Since
		}
	}
	return metav1.NewTime(now.UTC().Truncate(time.Second))
}
