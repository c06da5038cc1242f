package engine

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// WorkerMinors returns how many minors the workers of a Cluster can be moved at once: the fewest that the updaters of any of
// its MachineDeployments with a policy to update in place can do; 0 where nothing limits it. Stock Cluster API has one list of
// stops for all workers, so the slowest group counts.
func (e *Engine) WorkerMinors(ctx context.Context, cluster *clusterv1.Cluster) (int, error) {
	var deployments clusterv1.MachineDeploymentList
	err := e.Live.List(ctx, &deployments, client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name})
	if err != nil {
		return 0, fmt.Errorf("listing the MachineDeployments of Cluster %s: %w", client.ObjectKeyFromObject(cluster), err)
	}
	fewest := 0
	for i := range deployments.Items {
		limit, err := e.GroupMinors(ctx, cluster, &deployments.Items[i])
		if err != nil {
			return 0, err
		}
		if limit > 0 && (fewest == 0 || limit < fewest) {
			fewest = limit
		}
	}
	return fewest, nil
}

// GroupMinors returns how many minors the Machines of a MachineDeployment can be moved at once; 0 means any number that skew allows.
func (e *Engine) GroupMinors(ctx context.Context, cluster *clusterv1.Cluster, md *clusterv1.MachineDeployment) (int, error) {
	policy, err := e.selectPolicy(ctx, snapshot.MachineDeploymentGroup(cluster, md))
	if err != nil {
		return 0, err
	}
	if !policy.InPlace {
		return 0, nil
	}
	updaters, err := e.selectUpdaters(ctx, md.Namespace, md.Spec.Template.Labels)
	if err != nil {
		return 0, err
	}
	return updatepolicy.MinorLimit(updaters), nil
}
