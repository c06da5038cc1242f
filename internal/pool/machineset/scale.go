package machineset

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/pool"
)

// facts are what the rules read.
func (r *Run) facts() pool.SetFacts {
	policy := r.Policy
	// The last plan names the Machines that leave a MachineSet which was handed over. No others go in
	// their place, although the policy has changed meanwhile.
	policy.RepairByUpdate = policy.RepairByUpdate || pool.WasHandedOver(r.Set)
	return pool.SetFacts{
		MachineSet: r.Set, Deployment: r.Deployment, Machines: r.Machines, MachinesRead: r.Listed,
		BootstrapTemplateMissing:      r.BootstrapMissing,
		InfrastructureTemplateMissing: r.InfrastructureMissing,
		Blocked:                       r.Blocked, Now: r.Start, Policy: policy,
	}
}

// Scale deletes objects that no Machine uses, and then creates, moves or deletes Machines until the
// MachineSet has as many as it asks for.
func (r *Run) Scale(ctx context.Context) (Next, error) {
	facts := r.facts()
	if facts.CountsGroup() {
		var err error
		if facts.Group, err = r.readGroup(ctx); err != nil {
			return Next{}, err
		}
	}
	scaling, err := facts.Scale()
	if err != nil {
		return Next{}, err
	}
	if err := r.deleteUnused(ctx, r); err != nil {
		return Next{}, err
	}
	switch scaling.Action {
	case pool.Create:
		return r.CreateMachines(ctx, scaling.Count)
	case pool.Update:
		return Next{}, r.MoveMachines(ctx, scaling.Target, scaling.Count)
	case pool.Delete:
		return Next{}, r.DeleteMachines(ctx, scaling.Count)
	case pool.Keep, pool.Wait:
	}
	return Next{}, nil
}

// readGroup reads the Machines of all MachineSets of the MachineDeployment. It reads the MachineSets
// last: one that is created meanwhile may have got a Machine of another one.
func (r *Run) readGroup(ctx context.Context) ([]*clusterv1.Machine, error) {
	of := []client.ListOption{
		client.InNamespace(r.Set.Namespace),
		client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: r.Deployment.Name},
	}
	var machines clusterv1.MachineList
	if err := r.Client.List(ctx, &machines, of...); err != nil {
		return nil, fmt.Errorf("listing Machines of MachineDeployment %s: %w", r.Deployment.Name, err)
	}
	var sets clusterv1.MachineSetList
	if err := r.Client.List(ctx, &sets, of...); err != nil {
		return nil, fmt.Errorf("listing MachineSets of MachineDeployment %s: %w", r.Deployment.Name, err)
	}
	sets.Items = slices.DeleteFunc(sets.Items, func(set clusterv1.MachineSet) bool {
		return !metav1.IsControlledBy(&set, r.Deployment)
	})
	var group []*clusterv1.Machine
	for i := range machines.Items {
		m := &machines.Items[i]
		if slices.ContainsFunc(sets.Items, func(set clusterv1.MachineSet) bool {
			return metav1.IsControlledBy(m, &set)
		}) {
			group = append(group, m)
		}
	}
	return group, nil
}
