package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/upgradegraph"
)

// UpgradeGraphReconciler computes the status of UpgradeGraphs and writes it where it changed.
//
// Every replica runs it, without a leader: the status is a function of the specs, and writes carry the resource version
// that they were computed from, so that of two replicas that see a change only the first one's write succeeds.
type UpgradeGraphReconciler struct {
	// Client reads from a cache that holds all UpgradeGraphs, and writes to the API server.
	Client client.Client
	// Now is the clock for conditions.
	Now func() time.Time
}

const (
	// graphResyncInterval is when a graph is looked at again though no spec changed: by then somebody may have overwritten its
	// status.
	graphResyncInterval = time.Hour
	// graphRetryDelay gives the cache time to catch up with the write that came before ours.
	graphRetryDelay = time.Second
)

// SetupWithManager registers the Reconciler. A change of one graph's spec reconciles all graphs, because two must not
// serve one class. A change of a status by itself reconciles none: two releases that word a message differently, side
// by side during a rollout, would overwrite each other's without end.
func (r *UpgradeGraphReconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("upgradegraph").
		Watches(&v1alpha1.UpgradeGraph{}, handler.EnqueueRequestsFromMapFunc(r.allGraphs)).
		WithEventFilter(predicate.GenerationChangedPredicate{}).
		Complete(r)
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
		return reconcile.Result{RequeueAfter: graphResyncInterval}, nil
	}
	err := r.Client.Status().Patch(ctx, changed, client.MergeFromWithOptions(&graph, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	if apierrors.IsConflict(err) {
		// The cache is behind. The write that came first may be one of metadata or status, which reconciles nothing.
		return reconcile.Result{RequeueAfter: graphRetryDelay}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status of UpgradeGraph %q: %w", graph.Name, err)
	}
	logGraphReady(ctx, &graph, changed)
	return reconcile.Result{RequeueAfter: graphResyncInterval}, nil
}

// logGraphReady logs a change of the Ready condition, once.
func logGraphReady(ctx context.Context, before, after *v1alpha1.UpgradeGraph) {
	old := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ReadyCondition)
	ready := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ReadyCondition)
	if ready == nil || old != nil && old.Status == ready.Status && old.Reason == ready.Reason && old.Message == ready.Message {
		return
	}
	ctrl.LoggerFrom(ctx).Info("UpgradeGraph changed its readiness", "ready", ready.Status, "reason", ready.Reason, "message", ready.Message)
}
