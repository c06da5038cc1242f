package capi

import (
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

// Owner identifies the object whose machines are one group: a MachineDeployment, a MachineSet without
// one, or a control plane object in the version that its controller wrote.
type Owner struct {
	schema.GroupVersionKind
	types.NamespacedName
}

// OwnerOf returns the owner of the group that a Machine or MachineSet belongs to: for workers the
// MachineDeployment that a label names, because their controller is a MachineSet; otherwise the
// controller. ok is false if the object has neither.
func OwnerOf(object metav1.Object) (owner Owner, ok bool) {
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetLabels()[clusterv1.MachineDeploymentNameLabel]}
	if key.Name != "" && !IsControlPlane(object) {
		return Owner{GroupVersionKind: MachineDeploymentKind, NamespacedName: key}, true
	}
	return ControllerOf(object)
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
