package main

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// resolveLive makes a request from a Cluster of the management cluster.
func (o *planOptions) resolveLive(ctx context.Context, name string, in planInput) (planRequest, error) {
	if in.noWorkers || in.unnamed {
		return planRequest{}, inputErrorf("--no-workers, --workers-from", "they are for plans from flags alone; use --group NAME=VERSION to override a group of the Cluster")
	}
	m, namespace, err := connectUnlessManifests(o.kube)
	if err != nil {
		return planRequest{}, err
	}
	return m.resolveCluster(ctx, types.NamespacedName{Namespace: namespace, Name: name}, in)
}

// resolveCluster makes a request from a Cluster.
func (m managementCluster) resolveCluster(ctx context.Context, key types.NamespacedName, in planInput) (planRequest, error) {
	objects, err := m.fetchObjects(ctx, key, in.from.IsZero())
	if err != nil {
		return planRequest{}, err
	}
	r, _, err := resolveState(objects, in, origins{})
	if err != nil {
		return planRequest{}, err
	}
	class, graphs, err := m.fetchSource(ctx, objects.Cluster)
	// With versions from flags the class is not needed for the plan. Without it less is known about
	// updates.
	if err != nil && in.versions == nil {
		return planRequest{}, err
	}
	r.updates = m.liveUpdates(ctx, objects, class)
	return r.withSource(in.versions, class, graphs, origins{})
}

// fetchObjects reads a Cluster and what belongs to it. Machines are read only where groups do not list their versions.
func (m managementCluster) fetchObjects(ctx context.Context, key types.NamespacedName, withControlPlane bool) (snapshot.Objects, error) {
	o, err := m.fetchGroups(ctx, key)
	if err == nil && withControlPlane && o.Cluster.Spec.ControlPlaneRef.IsDefined() {
		o.ControlPlane, err = m.fetchControlPlane(ctx, o.Cluster)
	}
	if err == nil && snapshot.NeedsMachines(o) {
		o.Machines, err = m.listMachines(ctx, key)
	}
	return o, err
}

// fetchGroups reads a Cluster and its groups of machines. Only a Cluster with a topology has
// MachinePools that count.
func (m managementCluster) fetchGroups(
	ctx context.Context, key types.NamespacedName,
) (snapshot.Objects, error) {
	o := snapshot.Objects{Cluster: &clusterv1.Cluster{}}
	if err := m.get(ctx, "Cluster", key, o.Cluster); err != nil {
		return o, err
	}
	var err error
	in := inCluster(key)
	o.MachineDeployments, err = list[*clusterv1.MachineDeployment, clusterv1.MachineDeploymentList](
		ctx, m, "MachineDeployments", in)
	if err != nil || !o.Cluster.Spec.Topology.IsDefined() {
		return o, err
	}
	o.MachinePools, err = list[*clusterv1.MachinePool, clusterv1.MachinePoolList](ctx, m, "MachinePools", in)
	return o, ignoreNotFound(err)
}

// fetchSource reads the Cluster's class, and where that leaves plans to an extension the UpgradeGraphs, if there are any.
func (m managementCluster) fetchSource(ctx context.Context, cluster *clusterv1.Cluster) (*clusterv1.ClusterClass, []*v1alpha1.UpgradeGraph, error) {
	namespace, name, _ := snapshot.Class(cluster)
	class := &clusterv1.ClusterClass{}
	if err := m.get(ctx, "ClusterClass", types.NamespacedName{Namespace: namespace, Name: name}, class); err != nil {
		return nil, nil, err
	}
	if class.Spec.Upgrade.External.GenerateUpgradePlanExtension == "" {
		return class, nil, nil
	}
	graphs, err := list[*v1alpha1.UpgradeGraph, v1alpha1.UpgradeGraphList](
		ctx, m, "UpgradeGraphs", scope{})
	// Where the server knows none, another extension than ours serves this class.
	return class, graphs, ignoreNotFound(err)
}
