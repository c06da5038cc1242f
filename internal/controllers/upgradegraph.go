package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/refusal"
	"github.com/windlass-dev/windlass/internal/upgradegraph"
)

// UpgradeGraphReconciler computes the status of UpgradeGraphs and writes it where it changed.
//
// It runs on the leader only. A write carries the resourceVersion that it was computed from, so of two processes that both
// count themselves as leader only the first one's write succeeds.
type UpgradeGraphReconciler struct {
	// Client reads from a cache that holds all UpgradeGraphs, and writes to the API server.
	Client client.Client
	// Now is the clock for conditions.
	Now func() time.Time
}

// SetupWithManager registers the Reconciler. A change of one graph's spec reconciles all graphs, because two must not
// serve one class. A change of a status by itself reconciles none: two releases that word a message differently, side
// by side during a rollout, would overwrite each other's without end.
func (r *UpgradeGraphReconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("upgradegraph").
		Watches(&v1alpha1.UpgradeGraph{}, handler.EnqueueRequestsFromMapFunc(r.allGraphs)).
		WithEventFilter(predicate.GenerationChangedPredicate{}).
		Complete(refusal.BackOff("upgradegraph", r))
	if err != nil {
		return fmt.Errorf("setting up the UpgradeGraph controller: %w", err)
	}
	return nil
}

func (r *UpgradeGraphReconciler) allGraphs(ctx context.Context, _ client.Object) []reconcile.Request {
	var graphs v1alpha1.UpgradeGraphList
	if err := r.Client.List(ctx, &graphs); err != nil {
		// Only a cache that was stopped fails here, and then there is nothing left to do.
		ctrl.LoggerFrom(ctx).Error(err, "Listing UpgradeGraphs")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(graphs.Items))
	for i := range graphs.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&graphs.Items[i])})
	}
	return requests
}

// Reconcile brings one graph's status up to date.
func (r *UpgradeGraphReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var graph v1alpha1.UpgradeGraph
	if err := r.Client.Get(ctx, request.NamespacedName, &graph); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var all v1alpha1.UpgradeGraphList
	if err := r.Client.List(ctx, &all); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing UpgradeGraphs: %w", err)
	}
	changed := graph.DeepCopy()
	changed.Status = upgradegraph.ComputeStatus(&graph, all.Items, metav1.NewTime(r.Now()))
	if equality.Semantic.DeepEqual(graph.Status, changed.Status) {
		return reconcile.Result{RequeueAfter: resyncInterval}, nil
	}
	result, err := writeStatus(ctx, r.Client, &graph, changed)
	if err != nil {
		return result, fmt.Errorf("writing the status of UpgradeGraph %q: %w", graph.Name, err)
	}
	logReady(ctx, "UpgradeGraph", graph.Status.Conditions, changed.Status.Conditions)
	return result, nil
}
