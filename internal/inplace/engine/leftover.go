package engine

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// SweepMachines does what no hook is called for. It ends updates whose mark a person removed from the
// Machine, records their steps as owed, and follows updates that `clusterctl move` waits for. It works
// on the Machines that the watch filter selects; one fault hides no other.
func (e *Engine) SweepMachines(ctx context.Context) error {
	machines := newMachineMetadataList()
	if err := e.Client.List(ctx, machines, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Machines: %w", err)
	}
	var problems []error
	var moving []*metav1.PartialObjectMetadata
	for i := range machines.Items {
		m := &machines.Items[i]
		switch {
		case !e.selects(m):
		case isLeftover(m):
			problems = append(problems, e.clearLeftover(ctx, client.ObjectKeyFromObject(m)))
		case isFollowed(m):
			moving = append(moving, m)
		}
	}
	return errors.Join(append(problems, e.followPaused(ctx, moving))...)
}

// isLeftover reports whether nothing else ends the update of a Machine, or lifts its protection from a
// move after a person removed the update's record.
func isLeftover(m client.Object) bool {
	if has(m, clusterv1.UpdateInProgressAnnotation) || !m.GetDeletionTimestamp().IsZero() {
		return false
	}
	orphaned := blocksMove(m.GetAnnotations()) && !has(m, v1alpha1.InPlaceUpgradeAnnotation)
	return has(m, v1alpha1.UpdateProgressAnnotation) || orphaned
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
	if progress == nil {
		return m.Record(ctx, changeMove(machine.Annotations, nil))
	}
	if err := m.recordAbandon(ctx, *inplace.OwedBy(progress, before)); err != nil {
		return err
	}
	e.measureAbandoned(ctx, machine, progress)
	logFor(ctx).Info("Ended an update whose mark was taken off the Machine", "machine", key.String(), "update", progress.ID, "cordoned", progress.Cordoned)
	return nil
}
