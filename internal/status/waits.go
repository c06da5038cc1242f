package status

import (
	"cmp"
	"fmt"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// stuckControlPlane says why Cluster API cannot bring the machines of the control plane to its version, and
// what to do; empty if it can. selected is the policy that counts for it.
func stuckControlPlane(f Facts, selected policy.Policy) string {
	if f.ControlPlane == nil {
		return ""
	}
	c, ok := snapshot.Stuck(f.Objects, selected, capi.VersionAt(f.ControlPlane, "spec", "version"))
	if !ok {
		return ""
	}
	return fmt.Sprintf("it is stuck: %s. Fix: %s", c.Why(), c.Fix())
}

// restingRollout says why the rollout of the control plane makes no progress, and what to do; empty if it
// does, or has not stopped for long.
func restingRollout(f Facts, now time.Time) string {
	if s, ok := snapshot.RolloutStandstill(f.Objects, f.Around); ok && s.IsLong(now) {
		return s.Sentence()
	}
	return ""
}

// suffixHold says why workers will not follow the control plane, and what to do; empty if they will.
func suffixHold(f Facts) string {
	asked := capi.VersionAt(f.ControlPlane, "spec", "version")
	if s, ok := snapshot.SuffixHold(f.Objects, f.Around, asked); ok {
		return s.Sentence()
	}
	return ""
}

// describeWaits says why the machines of a group wait for a person, and what to do: those of a control
// plane that is stuck, those of a MachineDeployment whose rollout makes no progress, and those of one with
// the strategy OnDelete. It is empty if none wait, and if the UpdatePolicy asks for updates in place on
// delete.
func describeWaits(f Facts, of *groupFacts, now time.Time) string {
	if of.Name == ControlPlaneGroup && of.owner == f.ControlPlane {
		return cmp.Or(stuckControlPlane(f, of.selected), restingRollout(f, now), suffixHold(f))
	}
	md, isDeployment := of.owner.(*clusterv1.MachineDeployment)
	if !isDeployment {
		return ""
	}
	if s, ok := snapshot.WorkerStandstill(md, f.Objects, f.Around, now); ok {
		return s.Sentence()
	}
	return describeOnDelete(f, md, of)
}

// describeOnDelete says that machines of a MachineDeployment wait for their deletion, and what to do; empty
// if none do.
func describeOnDelete(f Facts, md *clusterv1.MachineDeployment, of *groupFacts) string {
	n := of.Count[Waiting]
	for _, m := range of.members {
		if isLost(m) && isUpToDate(m, of) && m.DeletionTimestamp.IsZero() {
			n-- // It waits for no deletion by a person.
		}
	}
	if n <= 0 || !pool.IsOnDelete(md) || of.selected.UpdateOnDelete {
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
