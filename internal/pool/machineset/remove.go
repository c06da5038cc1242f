package machineset

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clog "sigs.k8s.io/cluster-api/util/log"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// DeleteAll deletes the Machines of a MachineSet that is being deleted. When there are none left it
// removes the finalizer.
func (r *Run) DeleteAll(ctx context.Context) (Next, error) {
	log := ctrl.LoggerFrom(ctx)
	if len(r.Machines) == 0 {
		r.controller.ClearConsistencyStore(client.ObjectKeyFromObject(r.Set), r.Set.UID)
		controllerutil.RemoveFinalizer(r.Set, clusterv1.MachineSetFinalizer)
		return Next{}, nil
	}
	for _, m := range r.Machines {
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.Client.Delete(ctx, m); err != nil && !apierrors.IsNotFound(err) {
			return Next{}, fmt.Errorf("deleting Machine %s: %w", m.Name, err)
		}
		log.Info("Deleting Machine (MachineSet deleted)", "Machine", client.ObjectKeyFromObject(m))
	}
	log.Info("Waiting for Machines to be deleted", "Machines", clog.ObjNamesString(r.Machines))
	return Next{}, nil
}

// DeleteMachines deletes count Machines, in the order of the MachineSet. Those that are being
// deleted count first.
func (r *Run) DeleteMachines(ctx context.Context, count int) error {
	candidates, err := r.facts().Deletions(count)
	if err != nil {
		return err
	}
	goes := make([]*clusterv1.Machine, len(candidates))
	for i, c := range candidates {
		goes[i] = c.Machine
	}
	if err := r.recordFailedCanaries(ctx, goes); err != nil {
		return err
	}
	log := ctrl.LoggerFrom(ctx)
	log.Info("Scaling down by deleting Machines", "replicas", *r.Set.Spec.Replicas,
		"machineCount", len(r.Machines), "deleting", count)
	var errs []error
	for _, c := range candidates {
		m := c.Machine
		if !m.DeletionTimestamp.IsZero() {
			log.Info("Waiting for Machine to be deleted (scale down)",
				"Machine", client.ObjectKeyFromObject(m))
			continue
		}
		if err := r.deleteMachine(ctx, m); err != nil {
			errs = append(errs, fmt.Errorf("deleting Machine %s: %w", m.Name, err))
		}
	}
	return errors.Join(errs...)
}

// deleteMachine deletes a Machine. The next run waits until the cache shows that, or it would count
// the Machine as one that is left, and delete another one.
func (r *Run) deleteMachine(ctx context.Context, m *clusterv1.Machine) error {
	deleted, err := r.deleter.Delete(ctx, m)
	if err := client.IgnoreNotFound(err); err != nil {
		return err //nolint:wrapcheck // The caller names the Machine.
	}
	if left, ok := deleted.(*clusterv1.Machine); ok {
		r.awaitMachine(left)
	}
	ctrl.LoggerFrom(ctx).Info("Machine deleting", "Machine", client.ObjectKeyFromObject(m))
	r.recorder.Eventf(r.Set, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted Machine %q", m.Name)
	return nil
}
