package cli

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/cli/management"
)

// FindControlPlane finds a control plane by the name of its Cluster, or else by its own.
func FindControlPlane(
	ctx context.Context, m management.Cluster, key types.NamespacedName,
) (*clusterv1.Cluster, *unstructured.Unstructured, error) {
	cluster := &clusterv1.Cluster{}
	err := m.Object(ctx, "Cluster", key, cluster)
	if management.IsGone(err) {
		cluster, err = findClusterOf(ctx, m, key)
	}
	if err != nil {
		return nil, nil, err
	}
	if !cluster.Spec.ControlPlaneRef.IsDefined() {
		return nil, nil, Refusedf(
			"Cluster %s refers to no control plane object. Fix: name its Machines one by one", key)
	}
	object, err := m.ControlPlane(ctx, cluster)
	return cluster, object, err
}

func findClusterOf(
	ctx context.Context, m management.Cluster, controlPlane types.NamespacedName,
) (*clusterv1.Cluster, error) {
	in := management.Scope{Options: management.InNamespace(controlPlane.Namespace).Options}
	clusters, err := management.List[*clusterv1.Cluster, clusterv1.ClusterList](ctx, m, "Clusters", in)
	if err != nil {
		return nil, err
	}
	var found *clusterv1.Cluster
	for _, c := range clusters {
		if c.Spec.ControlPlaneRef.Name != controlPlane.Name {
			continue
		}
		if found != nil {
			return nil, InputErrorf("NAME",
				"the control planes of Clusters %s and %s have that name. Fix: name the Cluster", found.Name, c.Name)
		}
		found = c
	}
	if found == nil {
		return nil, InputErrorf("NAME", "%s is neither a Cluster nor the control plane of one", controlPlane)
	}
	return found, nil
}
