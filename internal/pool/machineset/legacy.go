//nolint:staticcheck // SA1019: clients of API v1beta1 read what is deprecated here
package machineset

import (
	"cmp"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/noderefutil"
	"sigs.k8s.io/cluster-api/util/collections"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/cluster-api/util/patch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/condition"
)

// ownedLegacy names the deprecated condition of Machines that this controller writes.
var ownedLegacy = patch.WithOwnedV1Beta1Conditions{
	Conditions: []clusterv1.ConditionType{clusterv1.MachineOwnerRemediatedV1Beta1Condition},
}

// legacyConditions are the deprecated conditions of a Machine that rules and status of a MachineSet
// read.
func legacyConditions(m *clusterv1.Machine) any {
	var all []*clusterv1.Condition
	for _, kind := range []clusterv1.ConditionType{
		clusterv1.ReadyV1Beta1Condition, clusterv1.MachineHealthCheckSucceededV1Beta1Condition,
		clusterv1.MachineOwnerRemediatedV1Beta1Condition,
	} {
		all = append(all, v1beta1conditions.Get(m, kind))
	}
	return all
}

// legacyRemediated sets the deprecated condition OwnerRemediated: the Machine is remediated.
func legacyRemediated(m *clusterv1.Machine) {
	v1beta1conditions.MarkTrue(condition.Legacy(m), clusterv1.MachineOwnerRemediatedV1Beta1Condition)
}

// legacyWaiting returns a change of the same condition: the remediation waits, and message says for
// what.
func legacyWaiting(message string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		v1beta1conditions.MarkFalse(condition.Legacy(m), clusterv1.MachineOwnerRemediatedV1Beta1Condition,
			clusterv1.WaitingForRemediationV1Beta1Reason, clusterv1.ConditionSeverityWarning, "%s", message)
	}
}

// forgetLegacy removes the deprecated condition OwnerRemediated.
func forgetLegacy(m *clusterv1.Machine) {
	v1beta1conditions.Delete(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition)
}

// UpdateOldStatus computes the deprecated fields of status, which count Nodes, and its deprecated
// conditions. It reads the counters of the new status.
func (r *Run) UpdateOldStatus(ctx context.Context) error {
	set := r.Set
	if set.Spec.Replicas == nil {
		return fmt.Errorf("spec.replicas of MachineSet %s is not set. Fix: set it", set.Name)
	}
	wanted, current := *set.Spec.Replicas, orZero(set.Status.Replicas)
	if !set.DeletionTimestamp.IsZero() {
		wanted = 0
	}
	if set.Status.Deprecated == nil {
		set.Status.Deprecated = &clusterv1.MachineSetDeprecatedStatus{}
	}
	if set.Status.Deprecated.V1Beta1 == nil {
		set.Status.Deprecated.V1Beta1 = &clusterv1.MachineSetV1Beta1DeprecatedStatus{}
	}
	r.countNodes(ctx, set.Status.Deprecated.V1Beta1)
	resizing := func(reason, doing string) {
		v1beta1conditions.MarkFalse(condition.Legacy(set), clusterv1.ResizedV1Beta1Condition, reason,
			clusterv1.ConditionSeverityWarning, "%s MachineSet to %d replicas (actual %d)",
			doing, wanted, current)
	}
	switch {
	case current < wanted:
		resizing(clusterv1.ScalingUpV1Beta1Reason, "Scaling up")
	case current > wanted:
		resizing(clusterv1.ScalingDownV1Beta1Reason, "Scaling down")
		v1beta1conditions.MarkTrue(condition.Legacy(set), clusterv1.MachinesCreatedV1Beta1Condition)
	default:
		if set.Status.Deprecated.V1Beta1.ReadyReplicas == current {
			v1beta1conditions.MarkTrue(condition.Legacy(set), clusterv1.ResizedV1Beta1Condition)
		}
		v1beta1conditions.MarkTrue(condition.Legacy(set), clusterv1.MachinesCreatedV1Beta1Condition)
	}
	if len(r.Machines) == 0 {
		v1beta1conditions.MarkTrue(condition.Legacy(set), clusterv1.MachinesReadyV1Beta1Condition)
		return nil
	}
	v1beta1conditions.SetAggregate(condition.Legacy(set), clusterv1.MachinesReadyV1Beta1Condition,
		collections.FromMachines(r.Machines...).ConditionGetters(), v1beta1conditions.AddSourceRef())
	return nil
}

// countNodes counts the Machines that have all labels of the template, and those whose Nodes are
// ready and available. A Node that cannot be read is neither. All that cannot be read are logged in
// one line: if the workload cluster is not reachable, each run finds that for each Machine.
func (r *Run) countNodes(ctx context.Context, status *clusterv1.MachineSetV1Beta1DeprecatedStatus) {
	status.FullyLabeledReplicas, status.ReadyReplicas, status.AvailableReplicas = 0, 0, 0
	template := labels.Set(r.Set.Spec.Template.Labels).AsSelectorPreValidated()
	minReady := orZero(r.Set.Spec.Template.Spec.MinReadySeconds)
	var unread []*clusterv1.Machine
	var unreadErr error
	for _, m := range r.Machines {
		if template.Matches(labels.Set(m.Labels)) {
			status.FullyLabeledReplicas++
		}
		if !m.Status.NodeRef.IsDefined() {
			continue
		}
		node, err := r.readNode(ctx, m)
		if err != nil {
			if m.DeletionTimestamp.IsZero() {
				unread, unreadErr = append(unread, m), cmp.Or(unreadErr, err)
			}
			continue
		}
		if !noderefutil.IsNodeReady(node) {
			continue
		}
		status.ReadyReplicas++
		if noderefutil.IsNodeAvailable(node, minReady, metav1.NewTime(r.Start)) {
			status.AvailableReplicas++
		}
	}
	if len(unread) > 0 {
		ctrl.LoggerFrom(ctx).Error(unreadErr, "Unable to retrieve Node status of Machines",
			"count", len(unread), "Machine", client.ObjectKeyFromObject(unread[0]),
			"Node", unread[0].Status.NodeRef.Name)
	}
}
