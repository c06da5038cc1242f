package engine

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// ClearLeftovers ends updates whose mark somebody took off the Machine by hand: Cluster API then asks no hook about them any
// longer, and nothing else would give the Machine back to MachineHealthChecks. What is not done is owed.
func (e *Engine) ClearLeftovers(ctx context.Context) error {
	machines := newMachineMetadataList()
	if err := e.Client.List(ctx, machines, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Machines: %w", err)
	}
	var problems []error
	for i := range machines.Items {
		if e.selects(&machines.Items[i]) && isLeftover(&machines.Items[i]) {
			problems = append(problems, e.clearLeftover(ctx, client.ObjectKeyFromObject(&machines.Items[i])))
		}
	}
	return errors.Join(problems...)
}

func isLeftover(m client.Object) bool {
	return has(m, v1alpha1.UpdateProgressAnnotation) && !has(m, clusterv1.UpdateInProgressAnnotation) && m.GetDeletionTimestamp().IsZero()
}

func (e *Engine) clearLeftover(ctx context.Context, key types.NamespacedName) error {
	unlock, err := e.machines.Lock(ctx, key)
	if err != nil {
		return fmt.Errorf("waiting for another call about Machine %s: %w", key, err)
	}
	defer unlock()
	machine, read := &clusterv1.Machine{}, e.Now()
	if err := e.Live.Get(ctx, key, machine); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading Machine %s: %w", key, err)
	}
	if !isLeftover(machine) {
		return nil
	}
	// Records that cannot be read are left to a person.
	progress, err := readAnnotation[inplace.Progress](machine, v1alpha1.UpdateProgressAnnotation)
	if err != nil {
		return err
	}
	before, err := readAnnotation[inplace.Owed](machine, v1alpha1.UpdateOwedAnnotation)
	if err != nil {
		return err
	}
	m := e.NewMachine(machine, read)
	if err := m.recordAbandon(ctx, *inplace.OwedBy(progress, before)); err != nil {
		return err
	}
	e.measureAbandoned(ctx, machine, progress)
	logFor(ctx).Info("Ended an update whose mark was taken off the Machine", "machine", key.String(), "update", progress.ID, "cordoned", progress.Cordoned)
	return nil
}
