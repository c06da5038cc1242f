package machineset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/noderefutil"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/collections"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// UpdateStatus computes the status of the MachineSet.
func (r *Run) UpdateStatus(ctx context.Context) error {
	status, err := r.facts().Status()
	if err != nil {
		return err
	}
	r.Set.Status.Selector = status.Selector
	status.Counters.Into(&r.Set.Status)
	for _, c := range status.Conditions {
		conditions.Set(r.Set, c)
	}
	if r.Listed {
		if err := r.UpdateOldStatus(ctx); err != nil {
			return err
		}
	}
	v1beta1conditions.SetSummary(r.Set, v1beta1conditions.WithConditions(
		clusterv1.MachinesCreatedV1Beta1Condition, clusterv1.ResizedV1Beta1Condition,
		clusterv1.MachinesReadyV1Beta1Condition,
	))
	return nil
}

// UpdateOldStatus computes the deprecated fields of status, which count Nodes, and its deprecated
// conditions. It reads the counters of the new status.
func (r *Run) UpdateOldStatus(ctx context.Context) error {
	set := r.Set
	if set.Spec.Replicas == nil {
		return fmt.Errorf("spec.replicas of MachineSet %s is not set", set.Name)
	}
	wanted, current := *set.Spec.Replicas, ptr.Deref(set.Status.Replicas, 0)
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
		v1beta1conditions.MarkFalse(set, clusterv1.ResizedV1Beta1Condition, reason,
			clusterv1.ConditionSeverityWarning, "%s MachineSet to %d replicas (actual %d)",
			doing, wanted, current)
	}
	switch {
	case current < wanted:
		resizing(clusterv1.ScalingUpV1Beta1Reason, "Scaling up")
	case current > wanted:
		resizing(clusterv1.ScalingDownV1Beta1Reason, "Scaling down")
		v1beta1conditions.MarkTrue(set, clusterv1.MachinesCreatedV1Beta1Condition)
	default:
		if set.Status.Deprecated.V1Beta1.ReadyReplicas == current {
			v1beta1conditions.MarkTrue(set, clusterv1.ResizedV1Beta1Condition)
		}
		v1beta1conditions.MarkTrue(set, clusterv1.MachinesCreatedV1Beta1Condition)
	}
	if len(r.Machines) == 0 {
		v1beta1conditions.MarkTrue(set, clusterv1.MachinesReadyV1Beta1Condition)
		return nil
	}
	v1beta1conditions.SetAggregate(set, clusterv1.MachinesReadyV1Beta1Condition,
		collections.FromMachines(r.Machines...).ConditionGetters(), v1beta1conditions.AddSourceRef())
	return nil
}

// countNodes counts the Machines that have all labels of the template, and those whose Nodes are
// ready and available. A Node that cannot be read is neither.
func (r *Run) countNodes(ctx context.Context, status *clusterv1.MachineSetV1Beta1DeprecatedStatus) {
	status.FullyLabeledReplicas, status.ReadyReplicas, status.AvailableReplicas = 0, 0, 0
	template := labels.Set(r.Set.Spec.Template.Labels).AsSelectorPreValidated()
	minReady := ptr.Deref(r.Set.Spec.Template.Spec.MinReadySeconds, 0)
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
				ctrl.LoggerFrom(ctx).Error(err, "Unable to retrieve Node status",
					"Machine", client.ObjectKeyFromObject(m), "Node", m.Status.NodeRef.Name)
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
}

func (r *Run) readNode(ctx context.Context, m *clusterv1.Machine) (*corev1.Node, error) {
	workload, err := r.ClusterCache.GetClient(ctx, util.ObjectKey(r.Cluster))
	if err != nil {
		return nil, fmt.Errorf("connecting to the workload cluster: %w", err)
	}
	node := &corev1.Node{}
	if err := workload.Get(ctx, client.ObjectKey{Name: m.Status.NodeRef.Name}, node); err != nil {
		return nil, fmt.Errorf("getting Node %s: %w", m.Status.NodeRef.Name, err)
	}
	return node, nil
}
