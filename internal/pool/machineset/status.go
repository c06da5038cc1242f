package machineset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/condition"
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
		condition.SetOn(r.Set, c)
	}
	if r.Listed {
		if err := r.UpdateOldStatus(ctx); err != nil {
			return err
		}
	}
	v1beta1conditions.SetSummary(condition.Legacy(r.Set), v1beta1conditions.WithConditions(
		clusterv1.MachinesCreatedV1Beta1Condition, clusterv1.ResizedV1Beta1Condition,
		clusterv1.MachinesReadyV1Beta1Condition,
	))
	return nil
}

// readNode returns the Node of a Machine, which must not be changed: it is the cache's own.
func (r *Run) readNode(ctx context.Context, m *clusterv1.Machine) (*corev1.Node, error) {
	workload, err := r.ClusterCache.GetClient(ctx, util.ObjectKey(r.Cluster))
	if err != nil {
		return nil, fmt.Errorf("connecting to the workload cluster: %w", err)
	}
	node := &corev1.Node{}
	if err := workload.Get(ctx, client.ObjectKey{Name: m.Status.NodeRef.Name}, node,
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("getting Node %s: %w", m.Status.NodeRef.Name, err)
	}
	return node, nil
}
