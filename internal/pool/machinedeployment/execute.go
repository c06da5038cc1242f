package machinedeployment

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/pool"
)

// manager is the field manager of MachineSets. Cluster API's controller has the same.
const manager = "capi-machinedeployment"

// Reasons of Events, as Cluster API's controller has them.
const (
	successfulCreate = "SuccessfulCreate"
	failedCreate     = "FailedCreate"
	successfulScale  = "SuccessfulScale"
	failedUpdate     = "FailedUpdate"
	successfulDelete = "SuccessfulDelete"
	failedDelete     = "FailedDelete"
	successfulAdopt  = "SuccessfulAdopt"
	failedAdopt      = "FailedAdopt"
	// failedPlan is of this controller. Cluster API's writes such an error to its log only.
	failedPlan = "FailedPlan"
	// canaryRetried: a person has asked for another try after a canary failed.
	canaryRetried = "CanaryRetried"
)

// execute writes the MachineSets of a plan in the plan's order, and stops at the first that fails.
// What is written until then is a state that Cluster API's controller leaves too.
func (r *run) execute(ctx context.Context, plan pool.Plan) error {
	done := executed{Plan: plan}
	for i, set := range plan.Sets() {
		written, err := r.applySet(ctx, set)
		if err != nil {
			return err
		}
		switch {
		case plan.New != nil && i == 0:
			done.newest = written
		case written != nil:
			done.old = append(done.old, written)
		}
	}
	if r.md.Annotations == nil {
		r.md.Annotations = map[string]string{}
	}
	// A pause without a current MachineSet leaves no revision, as with Cluster API's controller.
	if r.md.Annotations[clusterv1.RevisionAnnotation] != plan.Revision {
		r.md.Annotations[clusterv1.RevisionAnnotation] = plan.Revision
	}
	r.executed = &done
	return nil
}

// applySet writes one MachineSet, and returns it as the API server has it then; nil if it is gone.
func (r *run) applySet(ctx context.Context, plan pool.SetPlan) (*clusterv1.MachineSet, error) {
	desired := plan.Desired.DeepCopy()
	if plan.Current == nil {
		return r.createSet(ctx, plan, desired)
	}
	waits, err := r.mayWait(desired, plan.Current)
	if err != nil {
		return nil, fmt.Errorf("comparing MachineSet %s: %w", plan.Current.Name, err)
	}
	if waits {
		return plan.Current.DeepCopy(), nil
	}
	// A process that was frozen before this write must not repeat what another one has gone beyond.
	desired.ResourceVersion = plan.Current.ResourceVersion
	err = r.applier.ApplyIfChanged(ctx, manager, desired, plan.Current)
	gone := apierrors.IsConflict(err) || apierrors.IsNotFound(err)
	if gone && !plan.Current.DeletionTimestamp.IsZero() {
		return nil, nil //nolint:nilnil // Both mean that there is nothing left to write.
	}
	if err != nil {
		r.event(corev1.EventTypeWarning, failedUpdate, "Failed to update MachineSet %s: %v",
			client.ObjectKeyFromObject(plan.Current), err)
		return nil, fmt.Errorf("updating MachineSet %s: %w", plan.Current.Name, err)
	}
	if desired.ResourceVersion == plan.Current.ResourceVersion {
		return desired, nil
	}
	r.awaitCache(desired)
	r.reportScaled(ctx, plan, desired)
	return desired, nil
}

// mayWait reports whether the write of a MachineSet that Machines move to can be left to the next
// one, which its arriving Machines, or the end of the rollout, cause: it would only take ownership
// of the finalizer, or remove the names of Machines that need no counting any more.
func (r *run) mayWait(desired, current *clusterv1.MachineSet) (bool, error) {
	if !pool.Receives(desired) {
		return false, nil
	}
	kept := desired.DeepCopy()
	kept.Finalizers = nil
	for _, variant := range []*clusterv1.MachineSet{pool.WithCounted(desired, current), kept} {
		if variant == nil {
			continue
		}
		if same, err := r.applier.ChangesNothing(manager, variant, current); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

func (r *run) createSet(
	ctx context.Context, plan pool.SetPlan, desired *clusterv1.MachineSet,
) (*clusterv1.MachineSet, error) {
	replicas := *desired.Spec.Replicas
	key := client.ObjectKeyFromObject(desired)
	if err := r.applier.Apply(ctx, manager, desired); err != nil {
		r.event(corev1.EventTypeWarning, failedCreate, "Failed to create MachineSet %s: %v", key, err)
		return nil, fmt.Errorf("creating a MachineSet for MachineDeployment %s: %w", r.name(), err)
	}
	r.awaitCache(desired)
	ctrl.LoggerFrom(ctx).Info("Created the MachineSet of the current template",
		"MachineSet", key, "replicas", replicas, "reason", messages(plan.Notes))
	r.event(corev1.EventTypeNormal, successfulCreate,
		"Created MachineSet %s with %d replicas", key, replicas)
	return desired, nil
}

// reportScaled says what a write has changed.
func (r *run) reportScaled(ctx context.Context, plan pool.SetPlan, written *clusterv1.MachineSet) {
	from, to := *plan.Current.Spec.Replicas, *written.Spec.Replicas
	log := ctrl.LoggerFrom(ctx).WithValues("MachineSet", client.ObjectKeyFromObject(written),
		"from", from, "to", to, "reason", messages(plan.Notes))
	direction := "up"
	switch {
	case to == from:
		log.Info("Updated a MachineSet")
		return
	case to < from:
		direction = "down"
	}
	log.Info("Scaled a MachineSet " + direction)
	r.event(corev1.EventTypeNormal, successfulScale, "Scaled %s MachineSet %s: %d -> %d",
		direction, written.Name, from, to)
}

func messages(notes []pool.Note) string {
	words := make([]string, len(notes))
	for i, note := range notes {
		words[i] = note.Message()
	}
	return strings.Join(words, "; ")
}

// cleanUp deletes the old MachineSets of a complete rollout. One that somebody has changed since it
// was read is left for the next run.
func (r *run) cleanUp(ctx context.Context) error {
	if r.paused() || r.executed.Moving || !pool.Complete(r.md, r.completion()) {
		return nil
	}
	for _, set := range pool.Cleanable(r.executed.old, r.machines) {
		unchanged := client.Preconditions{UID: &set.UID, ResourceVersion: &set.ResourceVersion}
		deleted, err := r.deleter.Delete(ctx, set, unchanged)
		if apierrors.IsConflict(err) {
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			r.event(corev1.EventTypeWarning, failedDelete,
				"Failed to delete MachineSet %q: %v", set.Name, err)
			return fmt.Errorf("deleting the old MachineSet %s: %w", set.Name, err)
		}
		// Until the cache shows the deletion, a revert would choose this MachineSet as the new one, and
		// the Machines that move there would be deleted with it.
		if left, ok := deleted.(*clusterv1.MachineSet); ok {
			r.awaitCache(left)
		}
		ctrl.LoggerFrom(ctx).Info("Deleted an old MachineSet",
			"MachineSet", client.ObjectKeyFromObject(set))
		r.event(corev1.EventTypeNormal, successfulDelete, "Deleted MachineSet %q", set.Name)
	}
	return nil
}

func (r *run) paused() bool { return r.md.Spec.Paused != nil && *r.md.Spec.Paused }
