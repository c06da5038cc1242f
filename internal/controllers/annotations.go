package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/inplace/engine"
	"github.com/windlass-dev/windlass/internal/refusal"
)

// atOnce is when what must be looked at again at once is.
const atOnce = 100 * time.Millisecond

// AnnotationEngine carries upgrades out. *engine.Engine is one.
type AnnotationEngine interface {
	UpgradeMachine(ctx context.Context, key types.NamespacedName) (engine.Result, error)
	UpgradeGroup(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName) (engine.Result, error)
	// SweepUpgrades calls found with each object that an earlier process may have left something on.
	SweepUpgrades(ctx context.Context, found func(client.Object)) error
}

// AnnotationOptions are what the controllers work with.
type AnnotationOptions struct {
	Engine AnnotationEngine
	// Client reads from the manager's cache: Clusters, and the metadata of Machines and their groups.
	Client client.Client
	// Mapper finds the preferred version of a control plane's kind: a Cluster names the kind without one.
	Mapper meta.RESTMapper
	// Kinds is asked before a control plane's kind is watched.
	Kinds *contract.Watchable
	Keys  engine.Keys
	// WatchFilter is the value that the label clusterv1.WatchLabel must have on Machines, groups and Clusters; empty means that all count.
	WatchFilter string
}

// AnnotatedGroup is a request to reconcile a group of machines.
type AnnotatedGroup struct {
	Kind schema.GroupVersionKind
	Key  types.NamespacedName
}

// controllers are what SetUpAnnotations adds.
type controllers struct {
	AnnotationOptions
	cache  cache.Cache
	groups controller.TypedController[AnnotatedGroup]

	mu sync.Mutex
	// kinds are the kinds of groups that are watched.
	kinds map[schema.GroupKind]schema.GroupVersionKind
}

// SetUpAnnotations adds the controllers of Machines and of their groups. They run on the leader only. All that they know they read from the objects, so
// nothing is missed that happened while they did not run.
func SetUpAnnotations(mgr ctrl.Manager, o AnnotationOptions) error {
	c := &controllers{AnnotationOptions: o, cache: mgr.GetCache(), kinds: map[schema.GroupKind]schema.GroupVersionKind{}}
	left := newSweeper(o, sweepRetry)
	err := ctrl.NewControllerManagedBy(mgr).
		Named("in-place-upgrade-machine").
		For(&clusterv1.Machine{}, builder.OnlyMetadata, builder.WithPredicates(c.filtered(), c.marked())).
		WatchesRawSource(source.Channel(left.machines, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: engine.MachineWorkers, ReconciliationTimeout: timeout}).
		Complete(refusal.BackOff("in-place-upgrade-machine", reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			return result(c.Engine.UpgradeMachine(ctx, request.NamespacedName))
		})))
	if err != nil {
		return fmt.Errorf("setting up the controller of Machines to upgrade in place: %w", err)
	}
	c.groups, err = controller.NewTyped("in-place-upgrade-group", mgr, controller.TypedOptions[AnnotatedGroup]{
		MaxConcurrentReconciles: engine.GroupWorkers, ReconciliationTimeout: timeout,
		Reconciler: refusal.BackOff("in-place-upgrade-group", reconcile.TypedFunc[AnnotatedGroup](func(ctx context.Context, g AnnotatedGroup) (reconcile.Result, error) {
			return result(c.Engine.UpgradeGroup(ctx, g.Kind, g.Key))
		})),
	})
	if err != nil {
		return fmt.Errorf("setting up the controller of groups to upgrade in place: %w", err)
	}
	if err := c.watchGroup(clusterv1.GroupVersion.WithKind("MachineDeployment")); err != nil {
		return err
	}
	if err := c.watchMembers(); err != nil {
		return err
	}
	if err := c.groups.Watch(source.TypedChannel(left.groups, handler.TypedEnqueueRequestsFromMapFunc(itself))); err != nil {
		return fmt.Errorf("watching what upgrades in place have left on groups: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("in-place-upgrade-kinds").
		For(&clusterv1.Cluster{}, builder.WithPredicates(c.filtered(), predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, ReconciliationTimeout: timeout}).
		Complete(refusal.BackOff("in-place-upgrade-kinds", reconcile.Func(c.reconcileKind)))
	if err != nil {
		return fmt.Errorf("setting up the controller of control planes' kinds: %w", err)
	}
	if err := mgr.Add(left); err != nil {
		return fmt.Errorf("adding the sweeper of upgrades in place: %w", err)
	}
	return nil
}

// itself is the request to reconcile a group.
func itself(_ context.Context, object client.Object) []AnnotatedGroup {
	return []AnnotatedGroup{{Kind: object.GetObjectKind().GroupVersionKind(), Key: client.ObjectKeyFromObject(object)}}
}

// result puts what the engine says into the terms of controllers. A rate limit of its own would only delay what must be looked at at once.
func result(r engine.Result, err error) (reconcile.Result, error) {
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case r.Now:
		return reconcile.Result{RequeueAfter: atOnce}, nil
	}
	return reconcile.Result{RequeueAfter: r.After}, nil
}

// reconcileKind begins to watch the kind of a Cluster's control plane, where it is a new one.
func (c *controllers) reconcileKind(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cluster := &clusterv1.Cluster{}
	if err := c.Client.Get(ctx, request.NamespacedName, cluster); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err) //nolint:wrapcheck // The cache says what it is about.
	}
	ref := cluster.Spec.ControlPlaneRef
	if ref.Name == "" {
		return reconcile.Result{}, nil
	}
	if _, watched := c.watched(ref.GroupKind()); watched {
		return reconcile.Result{}, nil
	}
	mapping, err := c.Mapper.RESTMapping(ref.GroupKind())
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("finding the API version of %s, the control plane of Cluster %s: %w", ref.GroupKind(), request, err)
	}
	if err := c.Kinds.Check(ctx, mapping.GroupVersionKind); err != nil {
		return reconcile.Result{}, fmt.Errorf("the control plane of Cluster %s: %w", request, err)
	}
	return reconcile.Result{}, c.watchGroup(mapping.GroupVersionKind)
}

// watched returns in which version a kind of groups is watched.
func (c *controllers) watched(kind schema.GroupKind) (schema.GroupVersionKind, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gvk, ok := c.kinds[kind]
	return gvk, ok
}
