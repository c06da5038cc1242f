package machineset

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	coreadmission "sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// SyncMachines copies what may change in place from the MachineSet to its Machines: labels,
// annotations, timeouts, readiness gates and taints. Labels and annotations also go to the
// bootstrap config and the infrastructure of a Machine. A Machine that fails keeps neither the
// others nor later steps from their work. It stops the run after a repair of managed fields.
func (r *Run) SyncMachines(ctx context.Context) (Next, error) {
	known, err := r.newSyncStates()
	if err != nil {
		return Next{}, err
	}
	var errs []error
	restored := false
	for i, m := range r.Machines {
		if !m.DeletionTimestamp.IsZero() {
			errs = append(errs, r.syncDeleting(ctx, m))
			continue
		}
		state := known.read(ctx, m)
		if known.isSynced(m, state) {
			continue
		}
		synced, reached, err := r.syncMachine(ctx, m, &restored)
		errs = append(errs, err)
		if err == nil && reached == state && !restored {
			known.remember(m, state)
		}
		r.Machines[i] = synced
	}
	if restored {
		return Next{After: restoredRetry, Stop: true}, errors.Join(errs...)
	}
	return Next{}, errors.Join(errs...)
}

// syncDeleting copies what matters to the deletion of a Machine.
func (r *Run) syncDeleting(ctx context.Context, m *clusterv1.Machine) error {
	before, from := m.DeepCopy(), r.Set.Spec.Template.Spec.DeepCopy()
	m.Spec.ReadinessGates = from.ReadinessGates
	m.Spec.Deletion.NodeDrainTimeoutSeconds = from.Deletion.NodeDrainTimeoutSeconds
	m.Spec.Deletion.NodeDeletionTimeoutSeconds = from.Deletion.NodeDeletionTimeoutSeconds
	m.Spec.Deletion.NodeVolumeDetachTimeoutSeconds = from.Deletion.NodeVolumeDetachTimeoutSeconds
	m.Spec.MinReadySeconds, m.Spec.Taints = from.MinReadySeconds, from.Taints
	// The webhook sets the default again. Without it here, each run would patch.
	coreadmission.DefaultMachineNodeDeletionTimeoutSeconds(m)
	if err := objects.Merge(ctx, r.Client, before, m); err != nil {
		return fmt.Errorf("patching Machine %s, which is being deleted: %w", m.Name, err)
	}
	return nil
}

// syncMachine applies to a Machine and to its objects. It returns the Machine as it is then, also
// with an error, and the versions that they all have then. After the first repair of managed
// fields, which restored reports, it repairs only: an intent could not remove fields before the
// cache shows the repair.
func (r *Run) syncMachine(
	ctx context.Context, m *clusterv1.Machine, restored *bool,
) (out *clusterv1.Machine, reached versions, err error) {
	if err := r.restore(ctx, m, manager, restored); err != nil {
		return m, versions{}, err
	}
	out = m
	// The start of the update writes all of the Machine; until then nothing of it is applied.
	if !*restored && !pool.AwaitsUpdate(m) {
		desired := DesiredMachine(r.Set, m)
		if pool.WasHandedOver(r.Set) {
			// The updater writes the version, which the intent repeats as it was read.
			desired.ResourceVersion = m.ResourceVersion
		}
		if err := r.applier.ApplyIfChanged(ctx, manager, desired, m); err != nil {
			return m, versions{}, fmt.Errorf("updating Machine %s: %w", client.ObjectKeyFromObject(m), err)
		}
		out = desired
	}
	reached.machine = objectVersion{Version: keyed.VersionOf(out)}
	reached.infrastructure, err = r.syncObject(ctx, m, m.Spec.InfrastructureRef, restored)
	if err != nil {
		return out, versions{}, err
	}
	if ref := m.Spec.Bootstrap.ConfigRef; ref.IsDefined() {
		reached.bootstrap, err = r.syncObject(ctx, m, ref, restored)
		if err != nil {
			return out, versions{}, err
		}
	}
	return out, reached, nil
}

// syncObject applies labels and annotations to the infrastructure or the bootstrap config of a
// Machine. It returns the version that the object has then.
func (r *Run) syncObject(
	ctx context.Context, m *clusterv1.Machine, ref clusterv1.ContractVersionedObjectReference,
	restored *bool,
) (objectVersion, error) {
	current, err := external.GetObjectFromContractVersionedRef(ctx, r.Client, ref, m.Namespace)
	if err != nil {
		return objectVersion{}, fmt.Errorf(
			"getting %s %s of Machine %s: %w", ref.Kind, ref.Name, m.Name, err)
	}
	if err := r.restore(ctx, current, metadataManager, restored); err != nil || *restored {
		return objectVersion{}, err
	}
	if err := r.split(ctx, current); err != nil {
		return objectVersion{}, err
	}
	desired := identityOf(current)
	desired.SetLabels(machineLabels(r.Set))
	desired.SetAnnotations(machineAnnotations(r.Set))
	if err := r.applier.ApplyIfChanged(ctx, metadataManager, desired, current); err != nil {
		return objectVersion{}, fmt.Errorf(
			"updating %s %s: %w", ref.Kind, client.ObjectKeyFromObject(current), err)
	}
	return versionOf(desired), nil
}

// split gives labels and annotations of an object to metadataManager.
func (r *Run) split(ctx context.Context, object *unstructured.Unstructured) error {
	old, err := objects.OwnsClusterLabel(object, manager)
	if err != nil || !old {
		return err
	}
	if err := r.readOwnership(ctx, object); err != nil {
		return err
	}
	return objects.SplitOwnership(ctx, r.Client, object, manager, metadataManager)
}

// readOwnership reads an object from the API server before its managed fields are written: the
// cache need not have all of them.
func (r *Run) readOwnership(ctx context.Context, object client.Object) error {
	key := client.ObjectKeyFromObject(object)
	if err := r.APIReader.Get(ctx, key, object); err != nil {
		return fmt.Errorf("reading the managed fields of %T %s: %w", object, key, err)
	}
	return nil
}

func (r *Run) restore(
	ctx context.Context, object client.Object, owner string, restored *bool,
) error {
	if objects.IsOwnershipLost(object) {
		if err := r.readOwnership(ctx, object); err != nil {
			return err
		}
	}
	done, err := objects.RestoreOwnership(ctx, r.Client, object, owner)
	*restored = *restored || done
	return err
}

// identityOf returns an object that names another one and says nothing else. The UID keeps an apply
// from creating it again.
func identityOf(object *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(object.GroupVersionKind())
	out.SetNamespace(object.GetNamespace())
	out.SetName(object.GetName())
	out.SetUID(object.GetUID())
	return out
}
