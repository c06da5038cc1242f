package capi

import (
	"slices"
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

// IsControlPlane reports whether a Machine belongs to a control plane, by [Memberships]. The kind of its
// controller counts before the label, which anybody who may edit the Machine can add or remove.
func IsControlPlane(machine metav1.Object) bool {
	return membershipOf(machine).Group == ControlPlaneOfCluster
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
	// that it does not have. Controller is the kind of the Machine's controller, of any version, or any
	// kind of an API group. A rule without a condition of a kind holds for any Machine in this respect.
	Named, Has, Without string
	Controller          schema.GroupKind
	// Group is the group that the rule names.
	Group NamedGroup
}

// NamedGroup is which group a [Membership] names.
type NamedGroup int

const (
	// NoGroup is none that an UpdatePolicy selects.
	NoGroup NamedGroup = iota
	// DeploymentOfLabel is the MachineDeployment whose name is the value of the label Named.
	DeploymentOfLabel
	// DeploymentOfController is the MachineDeployment that controls the Machine.
	DeploymentOfController
	// DeploymentOfSet is the MachineDeployment of the MachineSet that controls the Machine. Only the
	// MachineSet names it; see [OwnerThrough]. If it has none, the next rule counts.
	DeploymentOfSet
	// ControlPlaneOfCluster is the control plane of the Machine's Cluster.
	ControlPlaneOfCluster
)

// controlPlaneGroup is the API group of the control plane objects that Cluster API's contract describes.
const controlPlaneGroup = "controlplane.cluster.x-k8s.io"

// memberships are those of [Memberships].
var memberships = []Membership{
	{Controller: schema.GroupKind{Group: controlPlaneGroup}, Group: ControlPlaneOfCluster},
	{
		Named: clusterv1.MachineDeploymentNameLabel, Without: clusterv1.MachineControlPlaneLabel,
		Group: DeploymentOfLabel,
	},
	{Controller: MachineDeploymentKind.GroupKind(), Group: DeploymentOfController},
	{Controller: MachineSetKind.GroupKind(), Group: DeploymentOfSet},
	// Cluster API's own kinds control workers only, such as those of a MachinePool.
	{Controller: schema.GroupKind{Group: clusterv1.GroupVersion.Group}, Group: NoGroup},
	{Has: clusterv1.MachineControlPlaneLabel, Group: ControlPlaneOfCluster},
}

// Memberships returns the rules by which a Machine's group is found, in order: the first one that
// holds counts. All that asks for the group of a Machine follows them: [OwnerOf], [OwnerThrough],
// [IsControlPlane], [Belongs], and the match condition of the guard's webhook. A Machine for which no
// rule holds has no group that an UpdatePolicy selects.
func Memberships() []Membership { return slices.Clone(memberships) }

// membershipOf returns the first rule that holds for an object; the zero Membership if none does.
func membershipOf(object metav1.Object) Membership {
	for _, rule := range memberships {
		if rule.Holds(object) {
			return rule
		}
	}
	return Membership{}
}

// Holds reports whether the rule holds for a Machine or MachineSet.
func (m Membership) Holds(object metav1.Object) bool {
	labels := object.GetLabels()
	_, has := labels[m.Has]
	_, without := labels[m.Without]
	controller, _ := ControllerOf(object)
	return (m.Named == "" || labels[m.Named] != "") && (m.Has == "" || has) &&
		(m.Without == "" || !without) &&
		(m.Controller.Group == "" || controller.Group == m.Controller.Group) &&
		(m.Controller.Kind == "" || controller.Kind == m.Controller.Kind)
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

// OwnerOf returns the owner of the group that a Machine belongs to, as far as the Machine tells it: for
// workers the MachineDeployment that a label names, because their controller is a MachineSet; otherwise
// the controller. ok is false if the object has neither.
func OwnerOf(object metav1.Object) (owner Owner, ok bool) {
	if rule := membershipOf(object); rule.Group == DeploymentOfLabel {
		return MachineDeployment(object.GetNamespace(), object.GetLabels()[rule.Named]), true
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

// OwnerAmong is [OwnerOf], completed by [OwnerThrough] if the Machine's MachineSet is one of sets.
func OwnerAmong[S metav1.Object](machine metav1.Object, sets []S) (owner Owner, ok bool) {
	owner, ok = OwnerOf(machine)
	if owner.GroupKind() != MachineSetKind.GroupKind() {
		return owner, ok
	}
	for _, set := range sets {
		if set.GetNamespace() == owner.Namespace && set.GetName() == owner.Name {
			return OwnerThrough(set), ok
		}
	}
	return owner, ok
}

// Belongs reports whether a Machine belongs to the group of an owner: a MachineDeployment, a MachineSet,
// or the control plane object of the Machine's Cluster. A Cluster has one control plane, so all its
// control plane Machines belong to that, also those that nothing controls. own is the owner of the
// Machine's group, by [OwnerOf] and [OwnerThrough].
func Belongs(machine metav1.Object, own, owner Owner) bool {
	if IsControlPlane(machine) {
		return !owner.IsMachineDeployment() && owner.GroupKind() != MachineSetKind.GroupKind()
	}
	return own.Name != "" && own.GroupKind() == owner.GroupKind() &&
		own.NamespacedName == owner.NamespacedName
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
