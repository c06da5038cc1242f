package engine

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// SweepMachines does what no hook is called for. It ends updates whose mark a person removed from the
// Machine, records their steps as owed, lets the cluster autoscaler remove the nodes of Machines that do not wait
// for an update any more, and follows updates that `clusterctl move` waits for. It works
// on the Machines that the watch filter selects, and on a bounded number of each namespace. It logs what
// fails. The error is that of the list of Machines, or of ctx.
func (e *Engine) SweepMachines(ctx context.Context) error {
	machines := newMachineMetadataList()
	if err := e.Client.List(ctx, machines, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Machines: %w", err)
	}
	var tasks []task
	for i := range machines.Items {
		m := &machines.Items[i]
		key := client.ObjectKeyFromObject(m)
		switch {
		case !e.selects(m):
		case isLeftover(m):
			if !e.isUnreadable(m) {
				tasks = append(tasks, task{key, func(ctx context.Context) error {
					return e.clearLeftover(ctx, key)
				}})
			}
		case isFollowed(m):
			tasks = append(tasks, task{key, func(ctx context.Context) error {
				return e.followIfPaused(ctx, m)
			}})
		}
	}
	e.sweeping.sweep(ctx, tasks)
	return ctx.Err()
}

// isUnreadable reports whether the records of a Machine, in the version of the cache, cannot be read.
// Such records are left to a person.
func (e *Engine) isUnreadable(m client.Object) bool {
	version, known := e.unreadable.Get(m.GetUID(), e.Now())
	return known && version == m.GetResourceVersion()
}

// isLeftover reports whether nothing else ends the update of a Machine, or lifts its protection from a
// move after a person removed the update's record.
func isLeftover(m client.Object) bool {
	if has(m, clusterv1.UpdateInProgressAnnotation) || !m.GetDeletionTimestamp().IsZero() {
		return false
	}
	orphaned := blocksMove(m.GetAnnotations()) && !has(m, v1alpha1.InPlaceUpgradeAnnotation)
	return has(m, v1alpha1.UpdateProgressAnnotation) || has(m, v1alpha1.ScaleDownDisabledAnnotation) || orphaned
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
	progress, err := readAnnotation[inplace.Progress](machine, v1alpha1.UpdateProgressAnnotation)
	before, owedErr := readAnnotation[inplace.Owed](machine, v1alpha1.UpdateOwedAnnotation)
	if err = cmp.Or(err, owedErr); err != nil {
		e.unreadable.Put(machine.UID, machine.ResourceVersion, e.Now(), sayAgainAfter)
		return err
	}
	m := e.NewMachine(machine, read)
	waited := has(machine, v1alpha1.ScaleDownDisabledAnnotation)
	if machine.Status.NodeRef.IsDefined() && (progress != nil || waited) {
		// A cluster that cannot be reached must not keep the record.
		if err := m.EnableScaleDown(ctx); err != nil {
			logFor(ctx).Info("A node keeps the annotation "+v1alpha1.ScaleDownDisabledAnnotation,
				"machine", key.String(), "reason", err.Error())
		}
	}
	if progress == nil {
		p := changeMove(machine.Annotations, nil)
		p.removeFrom(machine.Annotations, v1alpha1.ScaleDownDisabledAnnotation)
		return m.Record(ctx, p)
	}
	if err := m.recordAbandon(ctx, *inplace.OwedBy(progress, before)); err != nil {
		return err
	}
	e.measureAbandoned(ctx, machine, progress)
	logFor(ctx).Info("Ended an update whose mark was taken off the Machine", "machine", key.String(), "update", progress.ID, "cordoned", progress.Cordoned)
	return nil
}
