package machinedeployment

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/objects"
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
	// A MachineSet may have recorded another canary meanwhile: that is a conflict.
	after, err := objects.WriteFailedCanaries(ctx, r.Client, r.read, record)
	if err != nil {
		return err //nolint:wrapcheck // It names the MachineDeployment.
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
