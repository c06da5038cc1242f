package k8sd

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Machine is what the updater reads of a Machine.
type Machine struct {
	Name            types.NamespacedName
	ResourceVersion string
	// Cluster is the name of its Cluster, Node that of its node; Node is empty where it has none yet.
	Cluster, Node string
	Addresses     clusterv1.MachineAddresses
	Annotations   map[string]string
}

// cluster is the Machine's Cluster.
func (m Machine) cluster() types.NamespacedName {
	return types.NamespacedName{Namespace: m.Name.Namespace, Name: m.Cluster}
}

// Machines reads and annotates Machines. Implementations are safe for concurrent use.
type Machines interface {
	// Machine reads a Machine live; a NotFound error of apimachinery where it does not exist.
	Machine(ctx context.Context, name types.NamespacedName) (Machine, error)
	// Annotate sets annotations, and removes those whose value is nil. With a resource version, it does so only while the Machine has
	// that one, and otherwise gives a Conflict error of apimachinery.
	Annotate(ctx context.Context, name types.NamespacedName, resourceVersion string, annotations map[string]*string) error
}
