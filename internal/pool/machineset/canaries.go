package machineset

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// recordFailedCanaries records on the MachineDeployment which of the Machines that are about to be
// deleted are canaries whose update failed. Otherwise the Machines that take their places would let
// the rollout continue. A retry that somebody asked for before is void. After an error none of them
// may be deleted; it is a conflict if the MachineDeployment has changed since it was read.
func (r *Run) recordFailedCanaries(ctx context.Context, machines []*clusterv1.Machine) error {
	if r.Deployment == nil || pool.LimitsOf(r.Policy, r.Deployment) == nil {
		return nil
	}
	facts := r.facts()
	sets, err := r.readSets(ctx)
	if err != nil {
		return err
	}
	facts.Decided = pool.Decided(sets)
	record := facts.FailedCanaries(machines)
	if record == nil {
		return nil
	}
	after, err := objects.WriteFailedCanaries(ctx, r.Client, r.Deployment, record)
	if err != nil {
		return err //nolint:wrapcheck // It names the MachineDeployment.
	}
	r.Deployment = after
	ctrl.LoggerFrom(ctx).Info("The rollout is held, because Machines that are updated first failed",
		"MachineDeployment", client.ObjectKeyFromObject(after), "Machines", record.Machines)
	return nil
}
