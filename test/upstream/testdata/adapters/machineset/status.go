package machineset

import (
	"context"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/collections"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/internal/pool"
)

func factsOf(ms *clusterv1.MachineSet, machines []*clusterv1.Machine, read bool) pool.SetFacts {
	return pool.SetFacts{MachineSet: ms, Machines: machines, MachinesRead: read, Now: time.Now()}
}

func setReplicas(
	_ context.Context, ms *clusterv1.MachineSet, machines []*clusterv1.Machine, read bool,
) {
	factsOf(ms, machines, read).Counters().Into(&ms.Status)
}

func setScalingUpCondition(
	_ context.Context, ms *clusterv1.MachineSet, machines []*clusterv1.Machine,
	bootstrapMissing, infrastructureMissing, read bool, blocked []string,
) {
	f := factsOf(ms, machines, read)
	f.BootstrapTemplateMissing = bootstrapMissing
	f.InfrastructureTemplateMissing = infrastructureMissing
	f.Blocked = blocked
	conditions.Set(ms, f.ScalingUp())
}

func setScalingDownCondition(
	_ context.Context, ms *clusterv1.MachineSet, machines []*clusterv1.Machine, read bool,
) {
	conditions.Set(ms, factsOf(ms, machines, read).ScalingDown())
}

func setMachinesReadyCondition(
	_ context.Context, ms *clusterv1.MachineSet, machines []*clusterv1.Machine, read bool,
) {
	conditions.Set(ms, factsOf(ms, machines, read).MachinesReady())
}

func setMachinesUpToDateCondition(
	_ context.Context, ms *clusterv1.MachineSet, machines []*clusterv1.Machine, read bool,
) {
	conditions.Set(ms, factsOf(ms, machines, read).MachinesUpToDate())
}

// setRemediatingCondition ignores upstream's choice of Machines to remediate: ours makes it again.
func setRemediatingCondition(
	_ context.Context, ms *clusterv1.MachineSet, _, unhealthy collections.Machines, read bool,
) {
	conditions.Set(ms, factsOf(ms, unhealthy.UnsortedList(), read).Remediating())
}

func setDeletingCondition(
	_ context.Context, ms *clusterv1.MachineSet, machines []*clusterv1.Machine, read bool,
) {
	conditions.Set(ms, factsOf(ms, machines, read).Deleting())
}

func aggregateStaleMachines(machines []*clusterv1.Machine) string {
	return pool.StaleDeletions(machines, time.Now())
}
