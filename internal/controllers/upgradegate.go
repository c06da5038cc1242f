package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/refusal"
)

// UpgradeGateReconciler writes the conditions of UpgradeGates when their spec changes, and when Clusters
// come, go or get other labels. Package
// gatehooks writes who waits, and computes the conditions in the same write. Both run on the leader
// only.
type UpgradeGateReconciler struct {
	// Client reads from a cache that holds all UpgradeGates and Clusters, and writes to the API server.
	Client client.Client
	// Now is the clock for conditions.
	Now func() time.Time
}

// SetupWithManager registers the Reconciler. A change of the status by itself reconciles nothing.
func (r *UpgradeGateReconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("upgradegate").
		For(&v1alpha1.UpgradeGate{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.gatesBeside), builder.WithPredicates(predicate.LabelChangedPredicate{})).
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
	idle, err := r.isIdle(ctx, &g)
	if err != nil {
		return reconcile.Result{}, err
	}
	changed := g.DeepCopy()
	changed.Status = gate.ComputeStatus(&g, idle, metav1.NewTime(r.Now()))
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

// isIdle reports whether a gate is for no Cluster.
func (r *UpgradeGateReconciler) isIdle(ctx context.Context, g *v1alpha1.UpgradeGate) (bool, error) {
	var list clusterv1.ClusterList
	if err := r.Client.List(ctx, &list, client.InNamespace(g.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the Clusters of namespace %q: %w", g.Namespace, err)
	}
	clusters := make([]gate.Cluster, len(list.Items))
	for i := range list.Items {
		clusters[i] = gate.Cluster{Name: list.Items[i].Name, Labels: list.Items[i].Labels}
	}
	return gate.IsIdle(g, clusters), nil
}

// gatesBeside returns the gates of a Cluster's namespace.
func (r *UpgradeGateReconciler) gatesBeside(ctx context.Context, cluster client.Object) []reconcile.Request {
	var gates v1alpha1.UpgradeGateList
	if err := r.Client.List(ctx, &gates, client.InNamespace(cluster.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "the UpgradeGates of a namespace could not be listed; their status follows at the next resync",
			"namespace", cluster.GetNamespace())
		return nil
	}
	requests := make([]reconcile.Request, len(gates.Items))
	for i := range gates.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&gates.Items[i])
	}
	return requests
}
