package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/refusal"
)

// SetupWithManager registers the Reconciler. It runs on the leader only. Changes of a status by themselves reconcile nothing:
// two releases that word a message differently would overwrite each other's without end, and statuses of Clusters and
// MachineDeployments change all the time.
func (r *UpdatePolicyReconciler) SetupWithManager(mgr ctrl.Manager) error {
	specOrLabels := builder.WithPredicates(changed)
	toNamespace := handler.EnqueueRequestsFromMapFunc(namespaceOf)
	built, err := ctrl.NewControllerManagedBy(mgr).
		Named("updatepolicy").
		Watches(&v1alpha1.UpdatePolicy{}, toNamespace, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, toNamespace, specOrLabels).
		WatchesMetadata(&clusterv1.MachineDeployment{}, toNamespace, specOrLabels).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(nameOf), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(r.wholeScope), builder.WithPredicates(isGuard, changed)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, ReconciliationTimeout: timeout}).
		Build(refusal.BackOff("updatepolicy", r))
	if err != nil {
		return fmt.Errorf("setting up the UpdatePolicy controller: %w", err)
	}
	r.watches = &watches{controller: built, cache: mgr.GetCache(), kinds: r.Kinds}
	return nil
}

// changed lets events pass after which a policy may select other groups, or a control plane has other replicas.
var changed = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, deletionBegan)

// deletionBegan lets the event pass that marks an object as being deleted.
var deletionBegan = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	},
}

var isGuard = predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == v1alpha1.GuardConfigurationName })

func namespaceOf(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{inNamespace(object.GetNamespace())}
}

func nameOf(_ context.Context, namespace client.Object) []reconcile.Request {
	return []reconcile.Request{inNamespace(namespace.GetName())}
}

// wholeScope is allNamespaces, and the request about the scope alone.
func (r *UpdatePolicyReconciler) wholeScope(ctx context.Context, object client.Object) []reconcile.Request {
	return append(r.allNamespaces(ctx, object), inNamespace(noNamespace))
}

// allNamespaces are the namespaces that have policies, or are in the guard's scope.
func (r *UpdatePolicyReconciler) allNamespaces(ctx context.Context, object client.Object) []reconcile.Request {
	var policies v1alpha1.UpdatePolicyList
	if err := r.Client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		// Only a cache that was stopped fails here, and then there is nothing left to do.
		ctrl.LoggerFrom(ctx).Error(err, "Listing UpdatePolicies")
		return nil
	}
	var namespaces []string
	if config, ok := object.(*admissionregistrationv1.ValidatingWebhookConfiguration); ok {
		namespaces = newRegistration(config).scope.Namespaces()
	}
	for i := range policies.Items {
		namespaces = append(namespaces, policies.Items[i].Namespace)
	}
	slices.Sort(namespaces)
	var requests []reconcile.Request
	for _, namespace := range slices.Compact(namespaces) {
		requests = append(requests, inNamespace(namespace))
	}
	return requests
}

// watches begins to watch kinds of control planes as they are met. It is safe for concurrent use; a nil one watches nothing.
type watches struct {
	controller controller.Controller
	cache      cache.Cache
	kinds      *contract.Watchable

	mu   sync.Mutex
	seen map[schema.GroupKind]struct{}
}

// add watches the metadata of a kind, once. It returns a [*contract.NotWatchableError] if the kind
// cannot be watched.
func (w *watches) add(ctx context.Context, gvk schema.GroupVersionKind) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.seen[gvk.GroupKind()]; ok {
		return nil
	}
	if err := w.kinds.Check(ctx, gvk); err != nil {
		return err
	}
	if err := w.controller.Watch(source.Kind[client.Object](w.cache, capi.MetadataOf(gvk), handler.EnqueueRequestsFromMapFunc(namespaceOf), changed)); err != nil {
		return fmt.Errorf("watching %s: %w", gvk.GroupKind(), err)
	}
	if w.seen == nil {
		w.seen = map[schema.GroupKind]struct{}{}
	}
	w.seen[gvk.GroupKind()] = struct{}{}
	return nil
}
