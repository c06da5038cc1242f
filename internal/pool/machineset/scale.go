package machineset

import (
	"context"
	"errors"
)

// Scale deletes objects that no Machine uses, and then creates, moves or deletes Machines until the
// MachineSet has as many as it asks for.
func (r *Run) Scale(ctx context.Context) (Next, error) {
	if r.Set.Spec.Replicas == nil {
		return Next{}, errors.New("spec.replicas is not set")
	}
	if err := r.DeleteUnused(ctx); err != nil {
		return Next{}, err
	}
	switch s := scaleOf(r.Set, r.Machines); {
	case s.Create > 0:
		return r.CreateMachines(ctx, s.Create)
	case s.Move > 0:
		return Next{}, r.MoveMachines(ctx, s.Target, s.Move)
	case s.Delete > 0:
		return Next{}, r.DeleteMachines(ctx, s.Delete)
	}
	return Next{}, nil
}
