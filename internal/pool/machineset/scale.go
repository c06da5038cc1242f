package machineset

import (
	"context"

	"github.com/windlass-dev/windlass/internal/pool"
)

// facts are what the rules read.
func (r *Run) facts() pool.SetFacts {
	return pool.SetFacts{
		MachineSet: r.Set, Deployment: r.Deployment, Machines: r.Machines, MachinesRead: r.Listed,
		BootstrapTemplateMissing:      r.BootstrapMissing,
		InfrastructureTemplateMissing: r.InfrastructureMissing,
		Blocked:                       r.Blocked, Now: r.Start, Policy: r.Policy,
	}
}

// Scale deletes objects that no Machine uses, and then creates, moves or deletes Machines until the
// MachineSet has as many as it asks for.
func (r *Run) Scale(ctx context.Context) (Next, error) {
	scaling, err := r.facts().Scale()
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
