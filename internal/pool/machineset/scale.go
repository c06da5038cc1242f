package machineset

import (
	"context"
	"errors"

	"github.com/windlass-dev/windlass/internal/pool"
)

// facts are what the rules read.
func (r *Run) facts() pool.SetFacts {
	return pool.SetFacts{
		MachineSet: r.Set, Deployment: r.Deployment, Machines: r.Machines, MachinesRead: r.Listed,
		BootstrapTemplateMissing:      r.BootstrapMissing,
		InfrastructureTemplateMissing: r.InfrastructureMissing,
		Blocked:                       r.Blocked, Now: r.Start, Policy: r.Policy,
		Clock: r.clock,
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
	// What cannot be deleted does not keep the MachineSet from scaling.
	unused := r.deleteUnused(ctx, r)
	next, err := r.act(ctx, scaling)
	return next, errors.Join(unused, err)
}

// act creates, moves or deletes Machines.
func (r *Run) act(ctx context.Context, scaling pool.Scaling) (Next, error) {
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
