package status

import (
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
)

// describeWaits says why the waiting machines of a MachineDeployment with the strategy OnDelete wait
// for a person, and what to do. It is empty if none wait, and if the UpdatePolicy asks for updates
// in place.
func describeWaits(f Facts, of *groupFacts) string {
	md, isDeployment := of.owner.(*clusterv1.MachineDeployment)
	n := of.Count[Waiting]
	if !isDeployment || n == 0 || !pool.IsOnDelete(md) || of.selected.UpdateOnDelete {
		return ""
	}
	fix := "delete the machines that may be replaced"
	if of.selected.Guarded {
		fix = fmt.Sprintf("annotate the Machines that may be replaced with %s, and delete them",
			v1alpha1.AllowReplacementAnnotation)
	}
	if of.selected.InPlace && f.Rollouts.Engine == v1alpha1.EngineManager {
		fix += fmt.Sprintf("; to update them in place, set onDelete InPlace in UpdatePolicy %s",
			of.selected.Name)
	}
	who, them := "machines wait", "them"
	if n == 1 {
		who, them = "machine waits", "it"
	}
	return fmt.Sprintf("its rollout strategy is OnDelete: %d %s until a person deletes %s. Fix: %s",
		n, who, them, fix)
}
