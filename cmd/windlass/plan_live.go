package main

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/cli/management"
)

// resolveLive makes a request from a Cluster of the management cluster.
func (o *planOptions) resolveLive(ctx context.Context, name string, in planInput) (planRequest, error) {
	if in.noWorkers || in.unnamed {
		return planRequest{}, inputErrorf("--no-workers, --workers-from", "they are for plans from flags alone; use --group NAME=VERSION to override a group of the Cluster")
	}
	m, namespace, err := management.ConnectUnlessManifests(o.kube)
	if err != nil {
		return planRequest{}, err
	}
	return resolveCluster(ctx, m, types.NamespacedName{Namespace: namespace, Name: name}, in)
}

// resolveCluster makes a request from a Cluster.
func resolveCluster(ctx context.Context, m management.Cluster, key types.NamespacedName, in planInput) (planRequest, error) {
	objects, err := m.Objects(ctx, key, in.from.IsZero())
	if err != nil {
		return planRequest{}, err
	}
	r, _, err := resolveState(objects, in, origins{})
	if err != nil {
		return planRequest{}, err
	}
	class, graphs, err := m.Source(ctx, objects.Cluster)
	// With versions from flags the class is not needed for the plan. Without it less is known about
	// updates.
	if err != nil && in.versions == nil {
		return planRequest{}, err
	}
	r.updates = liveUpdates(ctx, m, objects, class)
	return r.withSource(in.versions, class, graphs, origins{})
}
