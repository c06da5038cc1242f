package controllers

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windlass-dev/windlass/lab/provider/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/provider/site"
)

// concurrency is how many hosts are made, or shut down, at the same time.
const concurrency = 10

// AddToScheme registers all kinds that the controllers use.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

// SetUp adds the controllers to a manager.
func SetUp(manager ctrl.Manager, rented *site.Client) error {
	c := manager.GetClient()
	pokes := &pokes{site: rented, log: manager.GetLogger()}
	options := controller.Options{MaxConcurrentReconciles: concurrency}
	mapCluster, err := util.ClusterToTypedObjectsMapper(c, &v1alpha1.HostMachineList{}, manager.GetScheme())
	if err != nil {
		return err
	}
	toMachine := util.MachineToInfrastructureMapFunc(v1alpha1.GroupVersion.WithKind("HostMachine"))
	err = ctrl.NewControllerManagedBy(manager).For(&v1alpha1.HostMachine{}).WithOptions(options).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(toMachine)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(mapCluster)).
		WatchesRawSource(pokes.source(c, &v1alpha1.HostMachineList{})).
		Complete(&machineReconciler{client: c, site: rented})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).For(&v1alpha1.HostCluster{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(clusterToHostCluster)).
		Watches(&v1alpha1.HostMachine{}, handler.EnqueueRequestsFromMapFunc(machineToHostCluster(c))).
		WatchesRawSource(pokes.source(c, &v1alpha1.HostClusterList{})).
		Complete(&clusterReconciler{client: c, site: rented})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).For(&v1alpha1.HostMachinePool{}).
		Watches(&clusterv1.MachinePool{}, handler.EnqueueRequestsFromMapFunc(machinePoolToHostMachinePool)).
		Watches(&v1alpha1.HostMachine{}, handler.EnqueueRequestsFromMapFunc(memberToPool)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(machineToPool(c))).
		Complete(&poolReconciler{client: c, reader: manager.GetAPIReader()})
	if err != nil {
		return err
	}
	return manager.Add(pokes)
}

func request(namespace, name string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
}

func clusterToHostCluster(_ context.Context, o client.Object) []reconcile.Request {
	cluster, ok := o.(*clusterv1.Cluster)
	if !ok || cluster.Spec.InfrastructureRef.Kind != "HostCluster" {
		return nil
	}
	return request(cluster.Namespace, cluster.Spec.InfrastructureRef.Name)
}

func machineToHostCluster(c client.Client) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		if _, ok := o.GetLabels()[clusterv1.MachineControlPlaneLabel]; !ok {
			return nil
		}
		cluster, err := util.GetClusterByName(ctx, c, o.GetNamespace(), o.GetLabels()[clusterv1.ClusterNameLabel])
		if err != nil {
			return nil // A Cluster that is gone has no load balancer.
		}
		return clusterToHostCluster(ctx, cluster)
	}
}

func machinePoolToHostMachinePool(_ context.Context, o client.Object) []reconcile.Request {
	pool, ok := o.(*clusterv1.MachinePool)
	if !ok || pool.Spec.Template.Spec.InfrastructureRef.Kind != "HostMachinePool" {
		return nil
	}
	return request(pool.Namespace, pool.Spec.Template.Spec.InfrastructureRef.Name)
}

func memberToPool(_ context.Context, o client.Object) []reconcile.Request {
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind == "HostMachinePool" {
			return request(o.GetNamespace(), owner.Name)
		}
	}
	return nil
}

func machineToPool(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		machine, ok := o.(*clusterv1.Machine)
		if !ok || machine.Labels[clusterv1.MachinePoolNameLabel] == "" {
			return nil
		}
		member := &v1alpha1.HostMachine{}
		key := client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.InfrastructureRef.Name}
		if err := c.Get(ctx, key, member); err != nil {
			return nil // The HostMachine's own event follows.
		}
		return memberToPool(ctx, member)
	}
}

// pokes makes the controllers look again when something at the site has changed.
type pokes struct {
	site  *site.Client
	log   logr.Logger
	sinks []chan event.GenericEvent
}

// source returns a source that has all objects of a kind reconciled.
func (p *pokes) source(c client.Reader, list client.ObjectList) source.Source {
	sink := make(chan event.GenericEvent, 1)
	p.sinks = append(p.sinks, sink)
	return source.Channel(sink, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		found, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			return nil // A copy has the same type.
		}
		if err := c.List(ctx, found); err != nil {
			p.log.Error(err, "Cannot list objects after a change of the site")
			return nil
		}
		var requests []reconcile.Request
		// The items are objects, so that it cannot fail.
		_ = meta.EachListItem(found, func(item runtime.Object) error {
			if object, ok := item.(client.Object); ok {
				requests = append(requests, request(object.GetNamespace(), object.GetName())...)
			}
			return nil
		})
		return requests
	}))
}

// retryDelay is the time between two attempts to reach the site.
const retryDelay = time.Second

// Start implements manager.Runnable.
func (p *pokes) Start(ctx context.Context) error {
	for revision := int64(-1); ctx.Err() == nil; {
		next, err := p.site.Wait(ctx, revision)
		if err != nil && ctx.Err() == nil {
			p.log.Error(err, "Cannot reach the site")
			select {
			case <-ctx.Done():
			case <-time.After(retryDelay):
			}
			continue
		}
		if next == revision {
			continue
		}
		revision = next
		for _, sink := range p.sinks {
			select {
			case sink <- event.GenericEvent{Object: &v1alpha1.HostMachine{}}:
			case <-ctx.Done():
			}
		}
	}
	return nil
}
