package doctor

import (
	"maps"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// checkMachinePools names the MachinePools that an UpdatePolicy would have updated in place if they
// were MachineDeployments. UpdatePolicies select no MachinePool. A target that names
// MachineDeployments does not count. Nor do policies in conflict, which have findings of their own.
func checkMachinePools(f Facts, policies policy.Set, into *findings) {
	cluster := f.Objects.Cluster
	for _, p := range listMachinePools(f.Objects) {
		selected, err := policies.Select(policy.Group{
			Namespace: cluster.Namespace, Cluster: cluster.Name, ClusterLabels: cluster.Labels,
			Labels: p.labels,
		})
		if err == nil && selected.InPlace {
			into.add(Warning, p.subject, "use a MachineDeployment if its machines are to be kept",
				"none of its machines is updated in place: UpdatePolicies, such as %q, select no MachinePools, "+
					"and the infrastructure provider decides what a change does to the machines",
				selected.Name)
		}
	}
}

// machinePool is what UpdatePolicies could select a MachinePool by.
type machinePool struct {
	subject string
	labels  map[string]string
}

// listMachinePools returns the MachinePools of a Cluster by name, then those of its topology that
// do not exist yet. Their labels are those that the Cluster gives them.
func listMachinePools(o snapshot.Objects) []machinePool {
	var pools []machinePool
	exist := map[string]bool{}
	byName := func(a, b *clusterv1.MachinePool) int { return strings.Compare(a.Name, b.Name) }
	for _, mp := range slices.SortedFunc(slices.Values(o.MachinePools), byName) {
		exist[mp.Labels[clusterv1.ClusterTopologyMachinePoolNameLabel]] = true
		pools = append(pools, machinePool{"MachinePool " + mp.Name, mp.Labels})
	}
	for _, t := range o.Cluster.Spec.Topology.Workers.MachinePools {
		if exist[t.Name] {
			continue
		}
		labels := map[string]string{
			clusterv1.ClusterNameLabel: o.Cluster.Name, clusterv1.ClusterTopologyOwnedLabel: "",
			clusterv1.ClusterTopologyMachinePoolNameLabel: t.Name,
		}
		maps.Copy(labels, t.Metadata.Labels)
		pools = append(pools, machinePool{"MachinePool of topology " + t.Name, labels})
	}
	return pools
}
