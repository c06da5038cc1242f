package machineset

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/recordjson"
)

// recordFailedCanaries records on the MachineDeployment which of the Machines that are about to be
// deleted are canaries whose update failed. Otherwise the Machines that take their places would let
// the rollout continue. A retry that somebody asked for before is void. After an error none of them
// may be deleted; it is a conflict if the MachineDeployment has changed since it was read.
func (r *Run) recordFailedCanaries(ctx context.Context, machines []*clusterv1.Machine) error {
	record := r.facts().FailedCanaries(machines)
	if record == nil {
		return nil
	}
	after := r.Deployment.DeepCopy()
	text, err := recordjson.Encode(*record, after.Annotations[v1alpha1.FailedCanariesAnnotation])
	if err != nil {
		return fmt.Errorf("encoding the record of failed canaries: %w", err)
	}
	after.Annotations = with(after.Annotations, v1alpha1.FailedCanariesAnnotation, text)
	delete(after.Annotations, v1alpha1.UpdateRetryAnnotation)
	patch := client.MergeFromWithOptions(r.Deployment, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("recording failed canaries on MachineDeployment %s: %w",
			client.ObjectKeyFromObject(r.Deployment), err)
	}
	r.Deployment = after
	ctrl.LoggerFrom(ctx).Info("The rollout is held, because Machines that are updated first failed",
		"MachineDeployment", client.ObjectKeyFromObject(after), "Machines", record.Machines)
	return nil
}
