package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/condition"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/refusal"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// Prober asks an updater whether it can be asked to update machines. Implementations are safe for concurrent use.
type Prober interface {
	// Check returns nil if the updater can be asked. It has no effect on machines.
	Check(ctx context.Context, updater *v1alpha1.Updater) error
}

// UpdaterReconciler looks at each Updater when its spec changes and once a minute, and writes its conditions where they changed. It
// runs on the leader only: each replica would ask the updaters by itself.
type UpdaterReconciler struct {
	// Client reads from a cache that holds all Updaters, and writes to the API server.
	Client client.Client
	Prober Prober
	// Now is the clock for conditions.
	Now func() time.Time
}

const (
	// probeInterval is how often an updater is looked at.
	probeInterval = time.Minute
	// concurrentProbes keeps updaters that do not answer from holding up the others.
	concurrentProbes = 8
	// maxMessage bounds what an updater answers, in bytes.
	maxMessage = 1024
)

// SetupWithManager registers the Reconciler. A change of the status by itself reconciles nothing: status.lastRequest is
// written while updates are under way.
func (r *UpdaterReconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("updater").
		For(&v1alpha1.Updater{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentProbes}).
		Complete(refusal.BackOff("updater", r))
	if err != nil {
		return fmt.Errorf("setting up the Updater controller: %w", err)
	}
	return nil
}

// Reconcile looks at one Updater.
func (r *UpdaterReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var updater v1alpha1.Updater
	if err := r.Client.Get(ctx, request.NamespacedName, &updater); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ready, invalid := r.probe(ctx, &updater)
	if ctx.Err() != nil {
		return reconcile.Result{}, nil //nolint:nilerr // The process ends, which says nothing about the updater.
	}
	changed := updater.DeepCopy()
	ready.ObservedGeneration, ready.LastTransitionTime = updater.Generation, metav1.NewTime(r.Now())
	condition.SetReady(&changed.Status.Conditions, ready, invalid)
	changed.Status.ObservedGeneration = updater.Generation
	if equality.Semantic.DeepEqual(updater.Status, changed.Status) {
		return reconcile.Result{RequeueAfter: probeInterval}, nil
	}
	// The patch holds what differs, so a lastRequest that the cache has not seen stays.
	err := patchStatus(ctx, r.Client, &updater, changed)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status of Updater %q: %w", updater.Name, err)
	}
	logReady(ctx, "Updater", updater.Status.Conditions, changed.Status.Conditions)
	return reconcile.Result{RequeueAfter: probeInterval}, nil
}

// probe asks the updater, unless its spec is invalid.
func (r *UpdaterReconciler) probe(ctx context.Context, u *v1alpha1.Updater) (ready metav1.Condition, invalid bool) {
	if err := updatepolicy.CheckUpdater(u); err != nil {
		return computeReady(err, nil), true
	}
	return computeReady(nil, r.Prober.Check(ctx, u.DeepCopy())), false
}

func computeReady(invalid, unreachable error) metav1.Condition {
	ready := metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse}
	switch {
	case invalid != nil:
		ready.Reason, ready.Message = v1alpha1.UpdaterInvalidReason, invalid.Error()
		if spec, ok := errors.AsType[*policy.InvalidError](invalid); ok {
			ready.Message = spec.Detail()
		}
	case unreachable != nil:
		ready.Reason, ready.Message = v1alpha1.UpdaterUnreachableReason, unreachable.Error()
	default:
		ready.Status, ready.Reason = metav1.ConditionTrue, v1alpha1.UpdaterReachableReason
	}
	// What an updater answers may be a page of HTML.
	ready.Message = text.Bound(ready.Message, maxMessage)
	return ready
}
