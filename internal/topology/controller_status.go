package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/condition"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Bounds of what goes into a Cluster's status.
const (
	// conditionBytes bounds an error, which may hold what others have said; the API allows 32 KiB.
	conditionBytes = 4096
	// maxPlanVersions is what the API allows.
	maxPlanVersions = 32
)

// writeStatus writes what this run has changed of the Cluster as it was read: its status, and variables that had no value. Other controllers write
// other conditions of the same Cluster, which Cluster API's helper keeps.
func (r *run) writeStatus(ctx context.Context, read *clusterv1.Cluster, reconcileErr error) error {
	if outdated(reconcileErr) {
		return nil
	}
	// What was recorded in between is no change any more.
	before := read.DeepCopy()
	before.Annotations, before.ResourceVersion = maps.Clone(r.cluster.Annotations), r.cluster.ResourceVersion
	helper, err := patch.NewHelper(before, live{Client: r.Client, reader: r.APIReader})
	if err != nil {
		return fmt.Errorf("preparing the status of Cluster %s: %w", client.ObjectKeyFromObject(read), err)
	}
	after := before.DeepCopy()
	r.cluster.Spec.Topology.DeepCopyInto(&after.Spec.Topology)
	r.setStatus(after, reconcileErr)
	//nolint:staticcheck // Cluster API writes this condition in its old form too, and so do we as long as it does.
	old := patch.WithOwnedV1Beta1Conditions{Conditions: []clusterv1.ConditionType{clusterv1.TopologyReconciledV1Beta1Condition}}
	err = helper.Patch(ctx, after, old,
		patch.WithOwnedConditions{Conditions: []string{clusterv1.ClusterTopologyReconciledCondition}})
	if apierrors.IsNotFound(err) && !read.DeletionTimestamp.IsZero() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the status of Cluster %s: %w", client.ObjectKeyFromObject(read), err)
	}
	return nil
}

// live reads past the cache. Conditions are merged with those that are there, by a patch that conflicts when these have been read from a cache which
// does not show yet what this run, or another controller, has written a moment ago.
type live struct {
	client.Client
	reader client.Reader
}

// Get reads one object as it is.
func (l live) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return l.reader.Get(ctx, key, object, options...)
}

// setStatus sets the condition in both of its forms, and the plan that is left.
func (r *run) setStatus(cluster *clusterv1.Cluster, reconcileErr error) {
	shown := computeCondition(r, reconcileErr)
	status := metav1.ConditionFalse
	if shown.True {
		status = metav1.ConditionTrue
	}
	condition.SetOn(cluster, metav1.Condition{Type: clusterv1.ClusterTopologyReconciledCondition, Status: status, Reason: shown.Reason, Message: shown.Message})
	if shown.True {
		v1beta1conditions.MarkTrue(condition.Legacy(cluster), clusterv1.TopologyReconciledV1Beta1Condition)
	} else {
		v1beta1conditions.MarkFalse(condition.Legacy(cluster), clusterv1.TopologyReconciledV1Beta1Condition, v1beta1Reason(shown.Reason), v1beta1Severity(shown.Reason), "%s", shown.Message)
	}
	if !r.decided || !planned(r.state, r.decision) {
		return
	}
	controlPlane := r.decision.Plan.ControlPlane
	if _, raised := r.decision.Action.(chain.RaiseControlPlane); raised {
		controlPlane = controlPlane[1:]
	}
	setPlans(&cluster.Status, planVersions(controlPlane), planVersions(chain.WorkersUpgrades(r.state.ControlPlane.Version, r.decision.Plan)))
}

// planned reports whether the decision has a plan, even one without steps. Where it has none, because none was needed or could be had, the last one
// stays in the status.
func planned(s chain.State, d chain.Decision) bool {
	if d.Objects.Leave || d.Reason == chain.NoSource || d.Reason == chain.NoPath || s.SourceProblem != "" {
		return false
	}
	return len(d.Plan.ControlPlane) > 0 || !s.ControlPlane.Exists || s.ControlPlane.Version.Equal(s.Target)
}

// setPlans sets what is left for the control plane and for workers. A part of the status is only made where there is something to say.
func setPlans(status *clusterv1.ClusterStatus, controlPlane, workers []clusterv1.StatusUpgradePlanVersion) {
	if status.ControlPlane == nil && len(controlPlane) > 0 {
		status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{}
	}
	if status.ControlPlane != nil {
		status.ControlPlane.UpgradePlan = controlPlane
	}
	if status.Workers == nil && len(workers) > 0 {
		status.Workers = &clusterv1.WorkersStatus{}
	}
	if status.Workers != nil {
		status.Workers.UpgradePlan = workers
	}
}

func planVersions(versions []version.Version) []clusterv1.StatusUpgradePlanVersion {
	var list []clusterv1.StatusUpgradePlanVersion
	for _, v := range versions[:min(len(versions), maxPlanVersions)] {
		list = append(list, clusterv1.StatusUpgradePlanVersion{Version: v.String()})
	}
	return list
}

func computeCondition(r *run, reconcileErr error) chain.Condition {
	if class, ok := errors.AsType[*ClassNotReconciledError](reconcileErr); ok {
		return chain.Condition{Reason: clusterv1.ClusterTopologyReconciledClusterClassNotReconciledReason, Message: class.Error()}
	}
	if reconcileErr != nil {
		return chain.Condition{Reason: chain.ReconcileFailed, Message: text.Bound(reconcileErr.Error(), conditionBytes)}
	}
	return chain.Describe(r.state, r.decision)
}

// v1beta1Reason is the reason that the condition had before there were conditions as Kubernetes has them.
func v1beta1Reason(reason string) string {
	switch reason {
	case chain.ReconcileFailed:
		return clusterv1.TopologyReconcileFailedV1Beta1Reason
	case chain.ClusterDeleting:
		return clusterv1.DeletingV1Beta1Reason
	case chain.ClusterPaused:
		return clusterv1.TopologyReconciledPausedV1Beta1Reason
	case clusterv1.ClusterTopologyReconciledClusterClassNotReconciledReason:
		return clusterv1.TopologyReconciledClusterClassNotReconciledV1Beta1Reason
	case chain.ClusterCreating:
		return clusterv1.TopologyReconciledClusterCreatingV1Beta1Reason
	case chain.MachineDeploymentsUpgradeDeferred:
		return clusterv1.TopologyReconciledMachineDeploymentsUpgradeDeferredV1Beta1Reason
	case chain.MachinePoolsUpgradeDeferred:
		return clusterv1.TopologyReconciledMachinePoolsUpgradeDeferredV1Beta1Reason
	default:
		return clusterv1.TopologyReconciledClusterUpgradingV1Beta1Reason
	}
}

//nolint:staticcheck // See writeStatus.
func v1beta1Severity(reason string) clusterv1.ConditionSeverity {
	if reason == chain.ReconcileFailed {
		return clusterv1.ConditionSeverityError
	}
	return clusterv1.ConditionSeverityInfo
}
