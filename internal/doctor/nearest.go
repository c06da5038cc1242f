package doctor

import (
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/text"
)

// checkPoolNames says which policies name a group that their Cluster does not have.
func checkPoolNames(f Facts, groups []group, into *findings) {
	var pools []string
	for _, g := range groups {
		if !g.ControlPlane {
			pools = append(pools, g.Topology)
		}
	}
	cluster := f.Objects.Cluster
	for i := range f.Policies {
		p := &f.Policies[i]
		wrong := text.Some{Most: shownMachines}
		for _, t := range p.Spec.Targets {
			if p.Namespace == cluster.Namespace && t.ClusterName == cluster.Name {
				addMissingPools(t.MachineDeployments, pools, &wrong)
			}
		}
		if wrong.Len() > 0 {
			into.add(Warning, "UpdatePolicy "+p.Name, "correct its targets",
				"Cluster %s has no MachineDeployment that its targets name: %s", cluster.Name,
				wrong.Join(", "))
		}
	}
}

func addMissingPools(named []v1alpha1.MachineDeploymentName, pools []string, into *text.Some) {
	for _, name := range named {
		if !slices.Contains(pools, string(name)) {
			into.Add(fmt.Sprintf("%q%s", name, text.DescribeNearest(string(name), pools)))
		}
	}
}
