package machinedeployment

import (
	"context"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/collections"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/internal/pool"
)

type (
	deployment = clusterv1.MachineDeployment
	setList    = []*clusterv1.MachineSet
)

func facts(md *deployment, list setList, m collections.Machines, read bool) pool.DeploymentFacts {
	return pool.DeploymentFacts{
		MachineDeployment: md,
		MachineSets:       list,
		SetsRead:          read,
		Machines:          m.UnsortedList(),
		Now:               time.Now(),
	}
}

func (r *Reconciler) updateStatus(_ context.Context, s *scope) error {
	f := facts(
		s.machineDeployment,
		s.machineSets,
		s.machines,
		s.getAndAdoptMachineSetsForDeploymentSucceeded,
	)
	f.BootstrapTemplateMissing = s.bootstrapTemplateNotFound
	f.InfrastructureTemplateMissing = s.infrastructureTemplateNotFound
	status, err := f.Status()
	if err != nil {
		return err
	}
	to := &s.machineDeployment.Status
	status.Counters.Into(to)
	to.Selector, to.Phase = status.Selector, string(status.Phase)
	for _, c := range status.Conditions {
		conditions.Set(s.machineDeployment, c)
	}
	return nil
}

func setReplicas(md *deployment, list setList) { pool.CountSets(list).Into(&md.Status) }

func setPhase(_ context.Context, md *deployment, list setList, read bool) {
	md.Status.Phase = string(facts(md, list, nil, read).Phase())
}

func setAvailableCondition(_ context.Context, md *deployment, read bool) {
	conditions.Set(md, facts(md, nil, nil, read).Available(md.Status.AvailableReplicas))
}

func setRollingOutCondition(_ context.Context, md *deployment, m collections.Machines) {
	conditions.Set(md, facts(md, nil, m, true).RollingOut())
}

func setScalingUpCondition(
	_ context.Context,
	md *deployment,
	list setList,
	bootstrapMissing, infrastructureMissing, read bool,
) {
	f := facts(md, list, nil, read)
	f.BootstrapTemplateMissing = bootstrapMissing
	f.InfrastructureTemplateMissing = infrastructureMissing
	conditions.Set(md, f.ScalingUp())
}

func setScalingDownCondition(
	_ context.Context, md *deployment, list setList, m collections.Machines, read bool,
) {
	conditions.Set(md, facts(md, list, m, read).ScalingDown())
}

func setMachinesReadyCondition(_ context.Context, md *deployment, m collections.Machines) {
	conditions.Set(md, facts(md, nil, m, true).MachinesReady())
}

func setMachinesUpToDateCondition(_ context.Context, md *deployment, m collections.Machines) {
	conditions.Set(md, facts(md, nil, m, true).MachinesUpToDate())
}

// setRemediatingCondition ignores upstream's choice of Machines to remediate: ours makes it again.
func setRemediatingCondition(_ context.Context, md *deployment, _, unhealthy collections.Machines) {
	conditions.Set(md, facts(md, nil, unhealthy, true).Remediating())
}

func setDeletingCondition(
	_ context.Context, md *deployment, list setList, m collections.Machines, read bool,
) {
	conditions.Set(md, facts(md, list, m, read).Deleting())
}
