package machinedeployment

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/recordjson"
)

// followUpCanaries removes the record of failed canaries if it is about another template or the
// rollout is complete, and answers a person who asks for a retry. The plan then follows what is
// recorded.
func (r *run) followUpCanaries(ctx context.Context) error {
	group := pool.Group{
		MachineDeployment: r.md, MachineSets: r.sets, Machines: r.machines, Now: r.Now(),
	}
	record, changed := group.FailedCanaries()
	if !changed {
		return nil
	}
	after := r.read.DeepCopy()
	if key := v1alpha1.FailedCanariesAnnotation; record == nil {
		delete(after.Annotations, key)
	} else {
		text, err := recordjson.Encode(*record, after.Annotations[key])
		if err != nil {
			return fmt.Errorf("encoding the record of failed canaries: %w", err)
		}
		after.Annotations[key] = text
		delete(after.Annotations, v1alpha1.UpdateRetryAnnotation)
	}
	// A MachineSet may have recorded another canary meanwhile.
	patch := client.MergeFromWithOptions(r.read, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("writing the record of failed canaries of MachineDeployment %s: %w",
			r.name(), err)
	}
	if record != nil {
		r.event(corev1.EventTypeNormal, canaryRetried,
			"Trying the update again after Machine %s failed", record.Machines[len(record.Machines)-1])
	}
	r.read = after
	r.md.Annotations, r.md.ResourceVersion = maps.Clone(after.Annotations), after.ResourceVersion
	r.await(deploymentType, after.ResourceVersion)
	return nil
}
