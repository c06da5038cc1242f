package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// resolveLive makes a request from a Cluster of the management cluster.
func (o *planOptions) resolveLive(ctx context.Context, name string, in planInput) (planRequest, error) {
	if in.noWorkers || in.unnamed {
		return planRequest{}, &flagError{flag: "--no-workers, --workers-from", problem: "they are for plans from flags alone; use --group NAME=VERSION to override a group of the Cluster"}
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
	live := origins{}
	r, _, err := resolveState(objects, in, live)
	if err != nil {
		return planRequest{}, err
	}
	class, graphs, err := m.fetchSource(ctx, objects.Cluster)
	if in.versions != nil {
		// The class is not needed for the plan then. Without it less is known about updates.
		r.request.Source, r.updates = in.versions, m.liveUpdates(ctx, objects, class)
		return r, nil
	}
	if err != nil {
		return planRequest{}, err
	}
	r.updates = m.liveUpdates(ctx, objects, class)
	var ref snapshot.Ref
	if r.request.Source, ref, err = snapshot.Source(class, graphs); err != nil {
		return planRequest{}, live.describe(err)
	}
	r.source = live.locate(ref)
	if ref.Kind == "UpgradeGraph" {
		r.notes = append(r.notes, fmt.Sprintf("the extension %q was not called; the plan is made from the UpgradeGraph that serves the class",
			class.Spec.Upgrade.External.GenerateUpgradePlanExtension))
	}
	return r, nil
}

// fetchObjects reads a Cluster and what belongs to it. Machines are read only where groups do not list their versions.
func (m managementCluster) fetchObjects(ctx context.Context, key types.NamespacedName, withControlPlane bool) (snapshot.Objects, error) {
	o := snapshot.Objects{Cluster: &clusterv1.Cluster{}}
	if err := m.get(ctx, "Cluster", key, o.Cluster); err != nil {
		return snapshot.Objects{}, err
	}
	var err error
	if withControlPlane && o.Cluster.Spec.ControlPlaneRef.IsDefined() {
		if o.ControlPlane, err = m.fetchControlPlane(ctx, o.Cluster); err != nil {
			return snapshot.Objects{}, err
		}
	}
	item := func(kind string) string { return fmt.Sprintf("%s of Cluster %s", kind, key) }
	ofCluster := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}}
	o.MachineDeployments, err = list[*clusterv1.MachineDeployment](ctx, m, item("MachineDeployments"), func() client.ObjectList { return &clusterv1.MachineDeploymentList{} }, ofCluster)
	if err != nil {
		return snapshot.Objects{}, err
	}
	o.MachinePools, err = list[*clusterv1.MachinePool](ctx, m, item("MachinePools"), func() client.ObjectList { return &clusterv1.MachinePoolList{} }, ofCluster)
	if err != nil || !snapshot.NeedsMachines(o) {
		return o, err
	}
	o.Machines, err = list[*clusterv1.Machine](ctx, m, item("Machines"), func() client.ObjectList { return &clusterv1.MachineList{} }, ofCluster)
	return o, err
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
	graphs, err := list[*v1alpha1.UpgradeGraph](ctx, m, "UpgradeGraphs", func() client.ObjectList { return &v1alpha1.UpgradeGraphList{} }, nil)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		// Another extension than ours serves this class.
		return class, nil, nil
	}
	return class, graphs, err
}
