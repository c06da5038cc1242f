package policy

import (
	"cmp"
	"fmt"
)

// Group is a control plane or a MachineDeployment: machines that are updated under one policy.
type Group struct {
	Namespace string
	// Cluster is the name of the Cluster, and ClusterLabels its labels.
	Cluster       string
	ClusterLabels map[string]string
	ControlPlane  bool
	// Topology is the name of a MachineDeployment's topology, or of the object where it has none.
	Topology string
	// Object is the name of the MachineDeployment or control plane object, and Labels its labels.
	Object string
	Labels map[string]string
}

// String names the group to people. Two groups of a management cluster have different names.
func (g Group) String() string {
	switch {
	case g.ControlPlane:
		return fmt.Sprintf("control plane of %s", join(g.Namespace, g.Cluster))
	case g.Topology == "" || g.Topology == g.Object:
		return fmt.Sprintf("MachineDeployment %s", join(g.Namespace, g.Object))
	default:
		return fmt.Sprintf("MachineDeployment %s (topology %s)", join(g.Namespace, g.Object), g.Topology)
	}
}

// Compare orders groups by namespace and cluster, the control plane before MachineDeployments.
func Compare(a, b Group) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Cluster, b.Cluster),
		cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Object, b.Object),
	)
}

func rank(g Group) int {
	if g.ControlPlane {
		return 0
	}
	return 1
}

// join returns how messages name an object; one that is read from a file may have no namespace.
func join(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
