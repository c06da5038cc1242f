package snapshot

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// OnPaper returns the objects of a Cluster without a topology as if it had one, with its control plane at
// the version that this has, and each of its MachineDeployments and MachinePools as a group of its name.
// onPaper is false, and the objects are unchanged, for a Cluster with a topology. o is not changed.
func OnPaper(o Objects) (p Objects, onPaper bool) {
	if o.Cluster.Spec.Topology.IsDefined() {
		return o, false
	}
	p = Objects{Cluster: o.Cluster.DeepCopy(), ControlPlane: o.ControlPlane, Unverified: o.Unverified}
	topology := &p.Cluster.Spec.Topology
	if o.ControlPlane != nil {
		// Take reports what has another shape.
		topology.Version, _, _ = unstructured.NestedString(o.ControlPlane.Object, "spec", "version")
	}
	for _, md := range slices.SortedFunc(slices.Values(o.MachineDeployments), byName) {
		topology.Workers.MachineDeployments = append(topology.Workers.MachineDeployments, clusterv1.MachineDeploymentTopology{Name: md.Name})
		p.MachineDeployments = append(p.MachineDeployments, named(md.DeepCopy(), clusterv1.ClusterTopologyMachineDeploymentNameLabel, md.Name))
	}
	for _, mp := range slices.SortedFunc(slices.Values(o.MachinePools), byName) {
		topology.Workers.MachinePools = append(topology.Workers.MachinePools, clusterv1.MachinePoolTopology{Name: mp.Name})
		p.MachinePools = append(p.MachinePools, named(mp.DeepCopy(), clusterv1.ClusterTopologyMachinePoolNameLabel, mp.Name))
	}
	for _, m := range o.Machines {
		switch md, mp := m.Labels[clusterv1.MachineDeploymentNameLabel], m.Labels[clusterv1.MachinePoolNameLabel]; {
		case md != "":
			m = named(m.DeepCopy(), clusterv1.ClusterTopologyMachineDeploymentNameLabel, md)
		case mp != "":
			m = named(m.DeepCopy(), clusterv1.ClusterTopologyMachinePoolNameLabel, mp)
		}
		p.Machines = append(p.Machines, m)
	}
	return p, true
}

func byName[T interface{ GetName() string }](a, b T) int {
	return cmp.Compare(a.GetName(), b.GetName())
}

// named gives an object the name that it has in a topology.
func named[T interface {
	GetLabels() map[string]string
	SetLabels(labels map[string]string)
}](object T, label, name string) T {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[label] = name
	object.SetLabels(labels)
	return object
}
