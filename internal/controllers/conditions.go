package controllers

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/refusal"
)

const (
	// resyncInterval is when a status is computed again though nothing changed: somebody may have
	// overwritten it by then.
	resyncInterval = time.Hour
	// retryDelay gives the cache time to show the write of another writer that came first.
	retryDelay = time.Second
	// timeout bounds one Reconcile.
	timeout = time.Minute
)

// writeStatus writes the status of changed, which was computed from before. The result asks for a retry
// after retryDelay where the cache is behind: the write that came first may be one of metadata or status,
// which reconciles nothing. An object that is gone is no error.
func writeStatus(ctx context.Context, c client.Client, before, changed client.Object) (reconcile.Result, error) {
	switch err := patchStatus(ctx, c, before, changed, client.MergeFromWithOptimisticLock{}); {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: retryDelay}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: resyncInterval}, nil
}

// patchStatus writes the status of changed, which was computed from before. It returns a
// refusal.DroppedError if the API server stores less.
func patchStatus(ctx context.Context, c client.Client, before, changed client.Object, o ...client.MergeFromOption) error {
	sent, _ := changed.DeepCopyObject().(client.Object)
	if err := c.Status().Patch(ctx, changed, client.MergeFromWithOptions(before, o...)); err != nil {
		return err
	}
	return refusal.CheckStored(sent, changed)
}

// logReady logs a change of the Ready condition of an object, once.
func logReady(ctx context.Context, kind string, before, after []metav1.Condition) {
	ready := meta.FindStatusCondition(after, v1alpha1.ReadyCondition)
	if ready != nil && isChanged(before, *ready) {
		ctrl.LoggerFrom(ctx).Info(kind+" changed its readiness", "ready", ready.Status, "reason", ready.Reason, "message", ready.Message)
	}
}

// isChanged reports whether a condition differs in what people read.
func isChanged(before []metav1.Condition, c metav1.Condition) bool {
	old := meta.FindStatusCondition(before, c.Type)
	return old == nil || old.Status != c.Status || old.Reason != c.Reason || old.Message != c.Message
}
