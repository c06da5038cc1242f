package capi

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// The kinds of Cluster API that own Machines, or own their owners.
var (
	MachineDeploymentKind = clusterv1.GroupVersion.WithKind("MachineDeployment")
	MachineSetKind        = clusterv1.GroupVersion.WithKind("MachineSet")
)

// MetadataOf returns an empty object of a kind, to read or watch metadata alone.
func MetadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

// IsControlPlane reports whether a Machine belongs to a control plane. Cluster API labels such Machines.
func IsControlPlane(machine metav1.Object) bool {
	_, ok := machine.GetLabels()[clusterv1.MachineControlPlaneLabel]
	return ok
}

// ClusterName returns the name of the Cluster that an object belongs to: the label of Cluster API, or
// the owner of kind Cluster; empty if it has neither.
func ClusterName(object metav1.Object) string {
	if name := object.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return name
	}
	for _, ref := range object.GetOwnerReferences() {
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
		if kind.Group == clusterv1.GroupVersion.Group && kind.Kind == "Cluster" {
			return ref.Name
		}
	}
	return ""
}

// Membership is a rule by which a Machine's metadata names the Machine's group.
type Membership struct {
	// Named is a label that the Machine has with a value. Has is a label that it has, and Without one
	// that it does not have. Controller is the kind of the Machine's controller, of any version. A
	// rule without a condition of a kind holds for any Machine in this respect.
	Named, Has, Without string
	Controller          schema.GroupKind
	// Group is the group that the rule names.
	Group NamedGroup
}

// NamedGroup is which group a [Membership] names.
type NamedGroup int

const (
	// DeploymentOfLabel is the MachineDeployment whose name is the value of the label Named.
	DeploymentOfLabel NamedGroup = iota
	// DeploymentOfController is the MachineDeployment that controls the Machine.
	DeploymentOfController
	// DeploymentOfSet is the MachineDeployment of the MachineSet that controls the Machine. Only the
	// MachineSet names it; see [OwnerThrough]. If it has none, the next rule counts.
	DeploymentOfSet
	// ControlPlaneOfCluster is the control plane of the Machine's Cluster.
	ControlPlaneOfCluster
)

var membershipByLabel = Membership{
	Named: clusterv1.MachineDeploymentNameLabel, Without: clusterv1.MachineControlPlaneLabel,
	Group: DeploymentOfLabel,
}

// Memberships returns the rules by which a Machine's group is found, in order: the first one that
// holds counts. [OwnerOf], [OwnerThrough] and the match condition of the guard's webhook follow them.
// A Machine for which no rule holds has no group that an UpdatePolicy selects.
func Memberships() []Membership {
	return []Membership{
		membershipByLabel,
		{Controller: MachineDeploymentKind.GroupKind(), Group: DeploymentOfController},
		{Controller: MachineSetKind.GroupKind(), Group: DeploymentOfSet},
		{Has: clusterv1.MachineControlPlaneLabel, Group: ControlPlaneOfCluster},
	}
}

// Holds reports whether the rule holds for a Machine or MachineSet.
func (m Membership) Holds(object metav1.Object) bool {
	labels := object.GetLabels()
	_, has := labels[m.Has]
	_, without := labels[m.Without]
	controller, _ := ControllerOf(object)
	return (m.Named == "" || labels[m.Named] != "") && (m.Has == "" || has) &&
		(m.Without == "" || !without) &&
		(m.Controller.Empty() || controller.GroupKind() == m.Controller)
}

// Owner identifies the object whose machines are one group: a MachineDeployment, a MachineSet without
// one, or a control plane object in the version that its controller wrote.
type Owner struct {
	schema.GroupVersionKind
	types.NamespacedName
}

// MachineDeployment returns a MachineDeployment as an owner.
func MachineDeployment(namespace, name string) Owner {
	return Owner{
		GroupVersionKind: MachineDeploymentKind,
		NamespacedName:   types.NamespacedName{Namespace: namespace, Name: name},
	}
}

// IsMachineDeployment reports whether the owner is a MachineDeployment, of any version.
func (o Owner) IsMachineDeployment() bool { return o.GroupKind() == MachineDeploymentKind.GroupKind() }

// OwnerOf returns the owner of the group that a Machine or MachineSet belongs to: for workers the
// MachineDeployment that a label names, because their controller is a MachineSet; otherwise the
// controller. ok is false if the object has neither.
func OwnerOf(object metav1.Object) (owner Owner, ok bool) {
	if membershipByLabel.Holds(object) {
		return MachineDeployment(object.GetNamespace(), object.GetLabels()[membershipByLabel.Named]), true
	}
	return ControllerOf(object)
}

// OwnerThrough returns the owner of the group of the Machines that a MachineSet controls: the
// MachineDeployment that controls the MachineSet, or that the MachineSet's label names; the MachineSet
// itself if there is none. It completes [OwnerOf] for a Machine whose label is gone, because somebody
// removed it or created the Machine without it: for that one, OwnerOf returns the MachineSet.
func OwnerThrough(set metav1.Object) Owner {
	for _, ownerOf := range []func(metav1.Object) (Owner, bool){ControllerOf, OwnerOf} {
		if owner, ok := ownerOf(set); ok && owner.IsMachineDeployment() {
			return owner
		}
	}
	return Owner{
		GroupVersionKind: MachineSetKind,
		NamespacedName:   types.NamespacedName{Namespace: set.GetNamespace(), Name: set.GetName()},
	}
}

// Belongs reports whether a Machine belongs to the group of an owner: a MachineDeployment, a MachineSet,
// or the control plane object of the Machine's Cluster. A Cluster has one control plane, so all its
// control plane Machines belong to that, also those that nothing controls.
func Belongs(machine metav1.Object, owner Owner) bool {
	if IsControlPlane(machine) {
		return !owner.IsMachineDeployment() && owner.GroupKind() != MachineSetKind.GroupKind()
	}
	own, ok := OwnerOf(machine)
	return ok && own.GroupKind() == owner.GroupKind() && own.NamespacedName == owner.NamespacedName
}

// ControllerOf returns the controller of an object; ok is false if it has none.
func ControllerOf(object metav1.Object) (owner Owner, ok bool) {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil {
		return Owner{}, false
	}
	return Owner{
		GroupVersionKind: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind),
		NamespacedName:   types.NamespacedName{Namespace: object.GetNamespace(), Name: ref.Name},
	}, true
}

// TemplateOf identifies what a worker Machine has moved to: the template of the MachineSet that
// controls it, as TemplateOfSet does. It is empty for a Machine that no MachineSet controls, such as a
// control plane Machine.
func TemplateOf(machine metav1.Object) string {
	ref := metav1.GetControllerOfNoCopy(machine)
	if ref == nil || ref.Kind != MachineSetKind.Kind {
		return ""
	}
	return templateName(machine, ref.Name)
}

// TemplateOfSet identifies the template of a MachineSet by the template's hash. Where an update in
// place is refused, Cluster API asks again about a MachineSet with another name and the same hash. A
// MachineSet without the label of its hash is identified by its name.
func TemplateOfSet(set metav1.Object) string { return templateName(set, set.GetName()) }

// templateName returns the hash of the template, which is in a label before a random suffix, and
// otherwise where the label has none.
func templateName(object metav1.Object, otherwise string) string {
	hash, _, found := strings.Cut(object.GetLabels()[clusterv1.MachineDeploymentUniqueLabel], "-")
	if found && hash != "" {
		return hash
	}
	return otherwise
}

// InTopology is the name of a group in a Cluster's topology. A MachinePool may have the name of a
// MachineDeployment. Name is empty for what is not part of the workers' topology.
type InTopology struct {
	Pool bool
	Name string
}

// InTopologyOf returns the group of the topology that a Machine, MachineDeployment or MachinePool
// belongs to, by Cluster API's labels.
func InTopologyOf(object metav1.Object) InTopology {
	if pool := object.GetLabels()[clusterv1.ClusterTopologyMachinePoolNameLabel]; pool != "" {
		return InTopology{Pool: true, Name: pool}
	}
	return InTopology{Name: object.GetLabels()[clusterv1.ClusterTopologyMachineDeploymentNameLabel]}
}
