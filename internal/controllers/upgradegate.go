package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/refusal"
)

// UpgradeGateReconciler writes the conditions of UpgradeGates when their spec changes. Package
// gatehooks writes who waits, and computes the conditions in the same write. Both run on the leader
// only.
type UpgradeGateReconciler struct {
	// Client reads from a cache that holds all UpgradeGates, and writes to the API server.
	Client client.Client
	// Now is the clock for conditions.
	Now func() time.Time
}

// SetupWithManager registers the Reconciler. A change of the status by itself reconciles nothing.
func (r *UpgradeGateReconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("upgradegate").
		For(&v1alpha1.UpgradeGate{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(refusal.BackOff("upgradegate", r))
	if err != nil {
		return fmt.Errorf("setting up the UpgradeGate controller: %w", err)
	}
	return nil
}

// Reconcile brings the conditions of one gate up to date.
func (r *UpgradeGateReconciler) Reconcile(
	ctx context.Context, request reconcile.Request,
) (reconcile.Result, error) {
	var g v1alpha1.UpgradeGate
	if err := r.Client.Get(ctx, request.NamespacedName, &g); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	changed := g.DeepCopy()
	changed.Status = gate.ComputeStatus(&g, metav1.NewTime(r.Now()))
	if equality.Semantic.DeepEqual(g.Status, changed.Status) {
		return reconcile.Result{RequeueAfter: resyncInterval}, nil
	}
	result, err := writeStatus(ctx, r.Client, &g, changed)
	if err != nil {
		return result, fmt.Errorf("writing the status of UpgradeGate %s: %w", request, err)
	}
	logReady(ctx, "UpgradeGate", g.Status.Conditions, changed.Status.Conditions)
	return result, nil
}
