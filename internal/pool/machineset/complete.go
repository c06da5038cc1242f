package machineset

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/pool"
)

// CompleteMoves brings Machines that have moved to the MachineSet to its template, and starts their
// updates in place. A Machine waits until the MachineDeployment has counted it.
func (r *Run) CompleteMoves(ctx context.Context) (Next, error) {
	var errs []error
	facts := r.facts()
	for _, m := range r.Machines {
		if !m.DeletionTimestamp.IsZero() || !facts.MayBeginUpdate(m) {
			continue
		}
		if err := r.completeMove(ctx, m); err != nil {
			errs = append(errs, fmt.Errorf("starting the update in place of Machine %s: %w", m.Name, err))
		}
	}
	return Next{}, errors.Join(errs...)
}

// completeMove writes the Machine's objects, and then the pending hook, on which the Machine
// controller starts the update. That last write is a patch, not an apply: the Machine controller
// removes the hook, and an apply of this controller must never put it back. For a Machine that has
// returned before its update began, that write also removes the mark of the update: the Machine
// controller then ends the update, and calls nobody.
func (r *Run) completeMove(ctx context.Context, m *clusterv1.Machine) error {
	returned := pool.HasReturned(m, r.Set.Name)
	if returned {
		if err := r.clearBlocked(ctx, m); err != nil {
			return err
		}
	}
	if err := r.WriteTemplate(ctx, m); err != nil {
		return err
	}
	before := m.DeepCopy()
	pending := capi.WithPendingHook(m, capi.UpdateMachineHook)
	m.Annotations = with(m.Annotations, runtimev1.PendingHooksAnnotation, pending)
	delete(m.Annotations, clusterv1.PendingAcknowledgeMoveAnnotation)
	if returned {
		delete(m.Annotations, clusterv1.UpdateInProgressAnnotation)
		delete(m.Annotations, v1alpha1.MovedFromAnnotation)
	}
	if err := r.Client.Patch(ctx, m, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("marking the hook %s as pending: %w", capi.UpdateMachineHook, err)
	}
	r.awaitMachine(m)
	if returned {
		ctrl.LoggerFrom(ctx).Info("Ended the return of a Machine without an update",
			"Machine", client.ObjectKeyFromObject(m))
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Completed triggering in-place update",
		"Machine", client.ObjectKeyFromObject(m))
	r.recorder.Event(m, corev1.EventTypeNormal, "SuccessfulStartInPlaceUpdate",
		"Machine starting in-place update")
	return nil
}

// clearBlocked removes the condition which says that the update cannot begin. Nobody asks for the
// update any more.
func (r *Run) clearBlocked(ctx context.Context, m *clusterv1.Machine) error {
	if !conditions.Has(m, v1alpha1.UpdateBlockedCondition) {
		return nil
	}
	before := m.DeepCopy()
	conditions.Delete(m, v1alpha1.UpdateBlockedCondition)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, m, patch); err != nil {
		return fmt.Errorf("removing the condition %s: %w", v1alpha1.UpdateBlockedCondition, err)
	}
	return nil
}

// WriteTemplate applies the MachineSet's template to a Machine that exists: first to its
// infrastructure, which is the most likely to refuse, then to its bootstrap config, and then to the
// Machine. It reads both templates before it writes. The two objects get the mark of the update,
// without which the Machine controller does not start it. Labels and other annotations of theirs
// are metadataManager's.
func (r *Run) WriteTemplate(ctx context.Context, m *clusterv1.Machine) error {
	desired := DesiredMachine(r.Set, m)
	desired.Spec.Version = r.Set.Spec.Template.Spec.Version
	desired.Spec.FailureDomain = r.Set.Spec.Template.Spec.FailureDomain

	infrastructure, err := r.recloned(ctx, m, m.Spec.InfrastructureRef, r.infrastructureCopy(m))
	if err != nil {
		return err
	}
	writes := []client.Object{infrastructure}
	if ref := m.Spec.Bootstrap.ConfigRef; ref.IsDefined() {
		bootstrap, err := r.recloned(ctx, m, ref, r.bootstrapCopy(m))
		if err != nil {
			return err
		}
		writes = append(writes, bootstrap)
	}
	for _, object := range append(writes, desired) {
		if err := r.applier.Apply(ctx, manager, object); err != nil {
			return err
		}
	}
	return nil
}

// recloned returns what the template says about an object of a Machine that exists.
func (r *Run) recloned(
	ctx context.Context, m *clusterv1.Machine, ref clusterv1.ContractVersionedObjectReference,
	from source,
) (*unstructured.Unstructured, error) {
	current, err := external.GetObjectFromContractVersionedRef(ctx, r.Client, ref, m.Namespace)
	if err != nil {
		return nil, fmt.Errorf("getting %s %s: %w", ref.Kind, ref.Name, err)
	}
	desired, err := r.clone(ctx, from, current)
	if err != nil {
		return nil, err
	}
	desired.SetLabels(nil)
	cloned := desired.GetAnnotations()
	annotations := map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
	for _, key := range []string{
		clusterv1.TemplateClonedFromNameAnnotation, clusterv1.TemplateClonedFromGroupKindAnnotation,
	} {
		annotations[key] = cloned[key]
	}
	desired.SetAnnotations(annotations)
	return desired, nil
}
