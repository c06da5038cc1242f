package machinedeployment

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool"
)

// The steps of a reconcile, one by one. Upstream's tests of its controller call them
// (test/upstream).

// OwnedSets returns the MachineSets that a MachineDeployment controls, by name. It adopts those
// that the MachineDeployment selects and that have no controller.
func (r *Reconciler) OwnedSets(
	ctx context.Context, md *clusterv1.MachineDeployment,
) ([]*clusterv1.MachineSet, error) {
	run := &run{Reconciler: r, md: md}
	err := run.readSets(ctx)
	return run.sets, err
}

// Delete deletes the MachineSets of a MachineDeployment that is deleted. If there are none, it
// removes the finalizer from md, and writes nothing.
func (r *Reconciler) Delete(ctx context.Context, md *clusterv1.MachineDeployment) error {
	return (&run{Reconciler: r, md: md}).reconcileDelete(ctx)
}

// Execute writes the MachineSets of a plan in the plan's order, and sets the revision of md, which
// it does not write.
func (r *Reconciler) Execute(
	ctx context.Context, md *clusterv1.MachineDeployment, plan pool.Plan,
) error {
	return (&run{Reconciler: r, md: md}).execute(ctx, plan)
}
