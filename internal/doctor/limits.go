package doctor

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
)

// checkLimits looks at the groups whose rollouts an UpdatePolicy bounds, in place and by
// replacement.
func checkLimits(f Facts, groups []group, into *findings) {
	for _, g := range groups {
		if !isBounded(g) {
			continue
		}
		before := len(into.list)
		if stock := f.EngineKnown && f.Engine != v1alpha1.EngineManager; stock {
			checkStockLimits(g, into)
		} else {
			checkShares(g, into)
			checkMaxFailures(g, into)
			checkMachineDeadline(g, into)
			checkGroupDeadline(g, into)
			checkOrder(g, into)
			checkReader(f, g, into)
		}
		if len(into.list) == before {
			into.ok(g.Subject, "limits of UpdatePolicy %q: %s", g.selected.Name,
				cmp.Or(pool.Limits(g.selected).Describe(), "the defaults"))
		}
	}
}

// isBounded reports whether the limits of an UpdatePolicy count for a group. They do not while
// people delete the machines, and nobody can tell if the strategy is unknown.
func isBounded(g group) bool {
	if g.ControlPlane || g.err != nil || g.selected.Name == "" {
		return false
	}
	known := g.MachineDeployment != nil || g.InTopology.Rollout.Strategy.Type != "" || g.InClass != nil
	onDelete := g.IsOnDelete()
	return known && (!onDelete || g.selected.UpdateOnDelete)
}

// replicasOf returns the replicas of a MachineDeployment; 0 if they are unknown.
func replicasOf(g group) int32 {
	if g.MachineDeployment == nil && g.InTopology.Replicas == nil {
		return 0
	}
	return deploymentStrategy(g).replicas
}

// checkShares looks for a partition and a canary that cover all machines of a group.
func checkShares(g group, into *findings) {
	replicas, limits := replicasOf(g), g.selected
	if replicas == 0 {
		return
	}
	if pool.Share(limits.Partition, replicas) >= replicas {
		into.add(Warning, g.Subject, "lower partition of the UpdatePolicy when machines are to change",
			"partition %s of UpdatePolicy %q keeps all %d machines at the old template: "+
				"windlass manager changes none, and an upgrade of the Cluster waits",
			limits.Partition.String(), g.selected.Name, replicas)
	}
	if replicas > 1 && pool.Share(limits.Canary, replicas) >= replicas {
		into.add(Warning, g.Subject,
			"lower canary of the UpdatePolicy, or leave it if no machine is to wait",
			"canary %s of UpdatePolicy %q covers all %d machines: "+
				"none waits until the first have proved the change",
			limits.Canary.String(), g.selected.Name, replicas)
	}
}

// checkMaxFailures compares maxFailures with the places that failed machines keep.
func checkMaxFailures(g group, into *findings) {
	limits := g.selected
	if !g.selected.InPlace || limits.MaxFailures <= limits.MaxInFlight {
		return
	}
	into.add(Warning, g.Subject, "raise maxInFlight of the UpdatePolicy, or lower maxFailures",
		"maxFailures %d of UpdatePolicy %q has no effect: a machine whose update failed keeps its place "+
			"in maxInFlight, so no other machine begins after %d failures",
		limits.MaxFailures, g.selected.Name, limits.MaxInFlight)
}

// checkMachineDeadline compares the deadline of a machine with the time that one updater may take.
// The soak time is not part of it: it does not begin if an attempt fails.
func checkMachineDeadline(g group, into *findings) {
	policy, deadline := g.selected, g.selected.MachineDeadline
	attempts := time.Duration(policy.MaxAttempts) * policy.AttemptTimeout
	if !g.selected.InPlace || deadline == 0 || deadline >= attempts {
		return
	}
	into.add(Warning, g.Subject, "raise machineDeadlineSeconds of the UpdatePolicy, or lower "+
		"maxAttempts or attemptTimeoutSeconds",
		"machineDeadlineSeconds of UpdatePolicy %q is %s, and an updater may take %s "+
			"(maxAttempts %d, each %s): the rollout may be held although the update still succeeds",
		g.selected.Name, deadline, attempts, policy.MaxAttempts, policy.AttemptTimeout)
}

// checkGroupDeadline compares the deadline of a rollout with what one machine may take.
func checkGroupDeadline(g group, into *findings) {
	limits := g.selected
	deadline := limits.GroupDeadline
	if deadline == 0 {
		return
	}
	switch {
	case deadline < limits.MachineDeadline:
		into.add(Warning, g.Subject, "raise groupDeadlineSeconds of the UpdatePolicy",
			"groupDeadlineSeconds of UpdatePolicy %q is %s, and machineDeadlineSeconds lets one machine "+
				"take %s: the rollout may be held although no machine is late",
			g.selected.Name, deadline, limits.MachineDeadline)
	case deadline <= limits.Soak && replicasOf(g) > 1:
		into.add(Warning, g.Subject, "raise groupDeadlineSeconds of the UpdatePolicy, or lower soakSeconds",
			"groupDeadlineSeconds of UpdatePolicy %q is %s, and a machine counts as done only after %s "+
				"(soakSeconds): the rollout is held before the first one is done",
			g.selected.Name, deadline, limits.Soak)
	}
}

// checkReader reports limits of which nobody knows whether the engine reads them.
func checkReader(f Facts, g group, into *findings) {
	fields := managerFields(g)
	if g.selected.MaxFailures > 0 {
		fields = append(fields, "onFailure Pause")
	}
	if len(fields) == 0 || f.Engine == v1alpha1.EngineManager {
		return
	}
	fix := askLive
	if f.Live {
		fix = "find out whether windlass manager runs in place of Cluster API's core manager"
	}
	into.unknown(g.Subject, fix,
		"only windlass manager reads these fields of UpdatePolicy %q, "+
			"and it is unknown whether it drives the Cluster: %s",
		g.selected.Name, join(fields))
}

// checkStockLimits reports what does not count beside stock Cluster API.
func checkStockLimits(g group, into *findings) {
	const fix = "run windlass manager in place of Cluster API's core manager, or remove them"
	if fields := managerFields(g); len(fields) > 0 {
		into.add(Warning, g.Subject, fix,
			"stock Cluster API drives the Cluster, "+
				"and only windlass manager reads these fields of UpdatePolicy %q: %s",
			g.selected.Name, join(fields))
	}
	if g.selected.MaxFailures > 0 {
		into.add(Warning, g.Subject,
			"run windlass manager in place of Cluster API's core manager, or set onFailure Wait",
			"stock Cluster API drives the Cluster: "+
				"onFailure Pause of UpdatePolicy %q holds no other machine there",
			g.selected.Name)
	}
}

// managerFields names the limits of a group's policy that only windlass manager reads, but
// onFailure.
func managerFields(g group) []string {
	limits := pool.Limits(g.selected).Fields()
	if pool.Share(limits.Canary, replicasOf(g)) <= 1 {
		limits.Canary = intstr.FromInt32(1) // Beside stock any canary counts as one machine.
	}
	limits.MaxFailures = 0
	fields := limits.Names()
	if g.selected.HandOver {
		fields = append(fields, "handOver")
	}
	return fields
}
