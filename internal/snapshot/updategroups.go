package snapshot

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/policy"
)

// ControlPlaneGroup is a cluster's control plane as UpdatePolicies select it. Both may be metadata only: of the cluster, namespace,
// name and labels count, of the control plane object name and labels. A control plane has no topology name.
func ControlPlaneGroup(cluster, object metav1.Object) policy.Group {
	return policy.Group{
		Namespace: cluster.GetNamespace(), Cluster: cluster.GetName(), ClusterLabels: cluster.GetLabels(),
		ControlPlane: true, Object: object.GetName(), Labels: object.GetLabels(),
	}
}

// MissingControlPlaneGroup is ControlPlaneGroup while the control plane object does not exist: it has the name by which the cluster
// refers to it, and no labels.
func MissingControlPlaneGroup(cluster *clusterv1.Cluster) policy.Group {
	return ControlPlaneGroup(cluster, &metav1.ObjectMeta{Name: cluster.Spec.ControlPlaneRef.Name})
}

// MachineDeploymentGroup is a MachineDeployment of a cluster as UpdatePolicies select it. Both may be metadata only: namespace, name
// and labels count.
func MachineDeploymentGroup(cluster, md metav1.Object) policy.Group {
	return policy.Group{
		Namespace: cluster.GetNamespace(), Cluster: cluster.GetName(), ClusterLabels: cluster.GetLabels(),
		Topology: cmp.Or(md.GetLabels()[clusterv1.ClusterTopologyMachineDeploymentNameLabel], md.GetName()),
		Object:   md.GetName(), Labels: md.GetLabels(),
	}
}

// GroupOf is ControlPlaneGroup or MachineDeploymentGroup, whichever the object is.
func GroupOf(cluster, object metav1.Object, isControlPlane bool) policy.Group {
	if isControlPlane {
		return ControlPlaneGroup(cluster, object)
	}
	return MachineDeploymentGroup(cluster, object)
}

// UpdateGroup is a control plane or MachineDeployment, and what its machines are asked for by.
type UpdateGroup struct {
	policy.Group
	// Name is the group's name in a plan; empty for the control plane.
	Name string
	// Subject names the object to people; the topology where there is no object yet.
	Subject string
	// MachineLabels are those that Updaters select its machines by.
	MachineLabels map[string]string
	// MachineDeployment is nil for the control plane, and while it does not exist.
	MachineDeployment *clusterv1.MachineDeployment
	// InTopology and InClass are the group's item of the Cluster's topology, and that of the ClusterClass; nil where there is none.
	InTopology *clusterv1.MachineDeploymentTopology
	InClass    *clusterv1.MachineDeploymentClass
}

// Owner returns the object whose machines the group is. A control plane's kind is not known here; the
// name is empty while the object does not exist.
func (g UpdateGroup) Owner() capi.Owner {
	if g.ControlPlane {
		return capi.Owner{NamespacedName: types.NamespacedName{Namespace: g.Namespace, Name: g.Object}}
	}
	return capi.MachineDeployment(g.Namespace, g.Object)
}

// Deployment returns the MachineDeployment of a group of workers. While it does not exist, the result
// has what Cluster API will create and rollouts read: spec.replicas and spec.rollout.strategy, by the
// topology, else by its class. The type of the strategy is empty if nothing describes it.
func (g UpdateGroup) Deployment() *clusterv1.MachineDeployment {
	if g.MachineDeployment != nil {
		return g.MachineDeployment
	}
	md := &clusterv1.MachineDeployment{}
	strategy := &md.Spec.Rollout.Strategy
	if g.InTopology != nil {
		md.Spec.Replicas = g.InTopology.Replicas
	}
	switch {
	case g.InTopology != nil && g.InTopology.Rollout.Strategy.Type != "":
		t := g.InTopology.Rollout.Strategy
		strategy.Type = t.Type
		strategy.RollingUpdate.MaxSurge = t.RollingUpdate.MaxSurge
		strategy.RollingUpdate.MaxUnavailable = t.RollingUpdate.MaxUnavailable
	case g.InClass != nil:
		c := g.InClass.Rollout.Strategy
		strategy.Type = c.Type
		strategy.RollingUpdate.MaxSurge = c.RollingUpdate.MaxSurge
		strategy.RollingUpdate.MaxUnavailable = c.RollingUpdate.MaxUnavailable
	}
	return md
}

// IsOnDelete reports whether a group of workers has the strategy OnDelete.
func (g UpdateGroup) IsOnDelete() bool {
	return g.Deployment().Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType
}

// UpdateGroups lists a cluster's groups as UpdatePolicies select them: the control plane, then the topology's
// MachineDeployments in their order, then those that are not part of the topology, by name. What does not exist yet has the
// labels that Cluster API will give it, as far as the Cluster and the class say; class may be nil.
func UpdateGroups(o Objects, class *clusterv1.ClusterClass) []UpdateGroup {
	groups := []UpdateGroup{controlPlaneGroup(o, class)}
	managed := map[string]*clusterv1.MachineDeployment{}
	var others []*clusterv1.MachineDeployment
	for _, md := range o.MachineDeployments {
		if name := md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel]; name != "" {
			managed[name] = md
		} else {
			others = append(others, md)
		}
	}
	topologies := o.Cluster.Spec.Topology.Workers.MachineDeployments
	for i := range topologies {
		t := &topologies[i]
		groups = append(groups, deploymentGroup(o.Cluster, managed[t.Name], t, deploymentClass(class, t.Class)))
		delete(managed, t.Name)
	}
	others = slices.AppendSeq(others, maps.Values(managed))
	slices.SortFunc(others, func(a, b *clusterv1.MachineDeployment) int { return strings.Compare(a.Name, b.Name) })
	for _, md := range others {
		groups = append(groups, deploymentGroup(o.Cluster, md, nil, nil))
	}
	return groups
}

func controlPlaneGroup(o Objects, class *clusterv1.ClusterClass) UpdateGroup {
	g := UpdateGroup{
		Group:   MissingControlPlaneGroup(o.Cluster),
		Subject: "control plane",
		MachineLabels: map[string]string{
			clusterv1.ClusterNameLabel: o.Cluster.Name, clusterv1.MachineControlPlaneLabel: "",
		},
	}
	topology := o.Cluster.Spec.Topology.ControlPlane.Metadata.Labels
	if o.ControlPlane != nil {
		g.Group = ControlPlaneGroup(o.Cluster, o.ControlPlane)
		g.Subject = o.ControlPlane.GetKind() + " " + o.ControlPlane.GetName()
		g.MachineLabels[clusterv1.MachineControlPlaneNameLabel] = o.ControlPlane.GetName()
		labels, _, err := unstructured.NestedStringMap(o.ControlPlane.Object, "spec", "machineTemplate", "metadata", "labels")
		if err == nil {
			maps.Copy(g.MachineLabels, labels)
		}
		return g
	}
	g.Labels = map[string]string{clusterv1.ClusterNameLabel: o.Cluster.Name, clusterv1.ClusterTopologyOwnedLabel: ""}
	for _, labels := range []map[string]string{classLabels(class), topology} {
		maps.Copy(g.Labels, labels)
		maps.Copy(g.MachineLabels, labels)
	}
	return g
}

func classLabels(class *clusterv1.ClusterClass) map[string]string {
	if class == nil {
		return nil
	}
	return class.Spec.ControlPlane.Metadata.Labels
}

func deploymentGroup(
	cluster *clusterv1.Cluster, md *clusterv1.MachineDeployment, topology *clusterv1.MachineDeploymentTopology, class *clusterv1.MachineDeploymentClass,
) UpdateGroup {
	g := UpdateGroup{MachineDeployment: md, InTopology: topology, InClass: class}
	if topology != nil {
		g.Name = topology.Name
	}
	if md != nil {
		g.Group = MachineDeploymentGroup(cluster, md)
		g.Subject = "MachineDeployment " + md.Name
		g.MachineLabels = maps.Clone(md.Spec.Template.Labels)
		return g
	}
	g.Subject = "MachineDeployment of topology " + topology.Name
	labels := map[string]string{
		clusterv1.ClusterNameLabel: cluster.Name, clusterv1.ClusterTopologyOwnedLabel: "",
		clusterv1.ClusterTopologyMachineDeploymentNameLabel: topology.Name,
	}
	if class != nil {
		maps.Copy(labels, class.Metadata.Labels)
	}
	maps.Copy(labels, topology.Metadata.Labels)
	g.Group = policy.Group{
		Namespace: cluster.Namespace, Cluster: cluster.Name, ClusterLabels: cluster.Labels, Topology: topology.Name, Labels: labels,
	}
	g.MachineLabels = maps.Clone(labels)
	return g
}

func deploymentClass(class *clusterv1.ClusterClass, name string) *clusterv1.MachineDeploymentClass {
	if class == nil {
		return nil
	}
	classes := class.Spec.Workers.MachineDeployments
	for i := range classes {
		if classes[i].Class == name {
			return &classes[i]
		}
	}
	return nil
}
