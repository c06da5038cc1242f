package management

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// Objects reads a Cluster and what belongs to it. Machines are read only where groups do not list their versions.
func (m Cluster) Objects(ctx context.Context, key types.NamespacedName, withControlPlane bool) (snapshot.Objects, error) {
	o, err := m.Groups(ctx, key)
	if err == nil && withControlPlane && o.Cluster.Spec.ControlPlaneRef.IsDefined() {
		o.ControlPlane, err = m.ControlPlane(ctx, o.Cluster)
	}
	if err == nil && snapshot.NeedsMachines(o) {
		o.Machines, err = m.Machines(ctx, key)
	}
	return o, err
}

// Groups reads a Cluster and its groups of machines. Only a Cluster with a topology has
// MachinePools that count.
func (m Cluster) Groups(
	ctx context.Context, key types.NamespacedName,
) (snapshot.Objects, error) {
	o := snapshot.Objects{Cluster: &clusterv1.Cluster{}}
	if err := m.Object(ctx, "Cluster", key, o.Cluster); err != nil {
		return o, err
	}
	var err error
	in := InCluster(key)
	o.MachineDeployments, err = List[*clusterv1.MachineDeployment, clusterv1.MachineDeploymentList](
		ctx, m, "MachineDeployments", in)
	if err != nil || !o.Cluster.Spec.Topology.IsDefined() {
		return o, err
	}
	o.MachinePools, err = List[*clusterv1.MachinePool, clusterv1.MachinePoolList](ctx, m, "MachinePools", in)
	return o, IgnoreMissing(err)
}

// Class reads the class of a Cluster; nil for one without a topology.
func (m Cluster) Class(
	ctx context.Context, cluster *clusterv1.Cluster,
) (*clusterv1.ClusterClass, error) {
	if !cluster.Spec.Topology.IsDefined() {
		return nil, nil //nolint:nilnil // Without a topology there is no class, which is no error.
	}
	return m.readClass(ctx, cluster)
}

func (m Cluster) readClass(
	ctx context.Context, cluster *clusterv1.Cluster,
) (*clusterv1.ClusterClass, error) {
	class := &clusterv1.ClusterClass{}
	if err := m.Object(ctx, "ClusterClass", cluster.GetClassKey(), class); err != nil {
		return nil, err
	}
	return class, nil
}

// Source reads the Cluster's class, and where that leaves plans to an extension the UpgradeGraphs, if there are any.
func (m Cluster) Source(ctx context.Context, cluster *clusterv1.Cluster) (*clusterv1.ClusterClass, []*v1alpha1.UpgradeGraph, error) {
	class, err := m.readClass(ctx, cluster)
	if err != nil {
		return nil, nil, err
	}
	if class.Spec.Upgrade.External.GenerateUpgradePlanExtension == "" {
		return class, nil, nil
	}
	graphs, err := List[*v1alpha1.UpgradeGraph, v1alpha1.UpgradeGraphList](
		ctx, m, "UpgradeGraphs", Scope{})
	// Where the server knows none, another extension than ours serves this class.
	return class, graphs, IgnoreMissing(err)
}

// Machines reads the Machines of a Cluster.
func (m Cluster) Machines(ctx context.Context, key types.NamespacedName) ([]*clusterv1.Machine, error) {
	return List[*clusterv1.Machine, clusterv1.MachineList](ctx, m, "Machines", InCluster(key))
}

// AllObjects reads a Cluster and everything that belongs to it. A control plane object that is missing
// is no error.
func (m Cluster) AllObjects(
	ctx context.Context, key types.NamespacedName,
) (snapshot.Objects, error) {
	o, err := m.Groups(ctx, key)
	if err != nil {
		return o, err
	}
	if o.Cluster.Spec.ControlPlaneRef.IsDefined() {
		o.ControlPlane, err = m.ControlPlane(ctx, o.Cluster)
		if IgnoreMissing(err) != nil {
			return o, err
		}
	}
	o.Machines, err = m.Machines(ctx, key)
	return o, err
}

// UpdatePolicies returns the policies of a namespace; none where the server does not know the kind.
func (m Cluster) UpdatePolicies(
	ctx context.Context, namespace string,
) ([]v1alpha1.UpdatePolicy, error) {
	return ListKnown[v1alpha1.UpdatePolicy, v1alpha1.UpdatePolicyList](
		ctx, m, "UpdatePolicies", InNamespace(namespace))
}

// UpgradeGates returns the gates of a namespace; none where the server does not know the kind.
func (m Cluster) UpgradeGates(
	ctx context.Context, namespace string,
) ([]v1alpha1.UpgradeGate, error) {
	return ListKnown[v1alpha1.UpgradeGate, v1alpha1.UpgradeGateList](
		ctx, m, "UpgradeGates", InNamespace(namespace))
}

// Updaters returns all Updaters; none where the server does not know the kind.
func (m Cluster) Updaters(ctx context.Context) ([]v1alpha1.Updater, error) {
	return ListKnown[v1alpha1.Updater, v1alpha1.UpdaterList](ctx, m, "Updaters", Scope{})
}

// ExtensionConfigs returns all of them; none where the server does not know the kind.
func (m Cluster) ExtensionConfigs(ctx context.Context) ([]runtimev1.ExtensionConfig, error) {
	return ListKnown[runtimev1.ExtensionConfig, runtimev1.ExtensionConfigList](
		ctx, m, "ExtensionConfigs", Scope{})
}

// Autoscalers returns the Deployments of cluster autoscalers in the management cluster, by the labels of
// their chart and example; none if they cannot be read.
func (m Cluster) Autoscalers(ctx context.Context) (found []appsv1.Deployment) {
	for _, matching := range capi.AutoscalerSelectors() {
		deployments, err := ListKnown[appsv1.Deployment, appsv1.DeploymentList](
			ctx, m, "Deployments", Scope{Options: []client.ListOption{
				client.MatchingLabelsSelector{Selector: matching},
			}})
		if err != nil {
			return nil
		}
		found = append(found, deployments...)
	}
	return found
}

// NamespaceLabels returns the labels of a namespace.
func (m Cluster) NamespaceLabels(
	ctx context.Context, name string,
) (map[string]string, error) {
	namespace := &corev1.Namespace{}
	err := m.Object(ctx, "Namespace", types.NamespacedName{Name: name}, namespace)
	return namespace.Labels, err
}
