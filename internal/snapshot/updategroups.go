package snapshot

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// ControlPlaneGroup is a cluster's control plane as UpdatePolicies select it. The object may be nil while it does not exist.
func ControlPlaneGroup(cluster *clusterv1.Cluster, object *unstructured.Unstructured) updatepolicy.Group {
	g := updatepolicy.Group{
		Namespace: cluster.Namespace, Cluster: cluster.Name, ClusterLabels: cluster.Labels,
		ControlPlane: true, Object: cluster.Spec.ControlPlaneRef.Name,
	}
	if object != nil {
		g.Object, g.Labels = object.GetName(), object.GetLabels()
	}
	return g
}

// MachineDeploymentGroup is a MachineDeployment of a cluster as UpdatePolicies select it.
func MachineDeploymentGroup(cluster *clusterv1.Cluster, md *clusterv1.MachineDeployment) updatepolicy.Group {
	return updatepolicy.Group{
		Namespace: cluster.Namespace, Cluster: cluster.Name, ClusterLabels: cluster.Labels,
		Topology: cmp.Or(md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel], md.Name),
		Object:   md.Name, Labels: md.Labels,
	}
}
