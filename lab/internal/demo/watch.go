package demo

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// controlPlaneGVK is the kind of control plane that a plane can run.
var controlPlaneGVK = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"}

// watcher follows the objects of one Cluster. Its observations come from watches, so nothing has to be polled.
type watcher struct {
	cache   cache.Cache
	cluster types.NamespacedName
	// changed has a token whenever something has changed since the last observation.
	changed chan struct{}
	// machines are all Machines that were ever seen.
	machines *register
}

// newWatcher starts to follow a Cluster; it ends with ctx.
func newWatcher(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, cluster types.NamespacedName) (*watcher, error) {
	c, err := cache.New(config, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{cluster.Namespace: {}}})
	if err != nil {
		return nil, fmt.Errorf("preparing to watch: %w", err)
	}
	w := &watcher{cache: c, cluster: cluster, changed: make(chan struct{}, 1), machines: newRegister()}
	controlPlane := &unstructured.Unstructured{}
	controlPlane.SetGroupVersionKind(controlPlaneGVK)
	for _, object := range []client.Object{&clusterv1.Cluster{}, controlPlane, &clusterv1.MachineDeployment{}, &clusterv1.Machine{}} {
		informer, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching: %w", err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: w.seen, UpdateFunc: func(_, object any) { w.seen(object) }, DeleteFunc: w.gone,
		}); err != nil {
			return nil, fmt.Errorf("watching: %w", err)
		}
	}
	go func() {
		// It returns an error only when it cannot be started twice.
		_ = c.Start(ctx)
	}()
	if !c.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("waiting for the first objects: %w", context.Cause(ctx))
	}
	return w, nil
}

// seen takes every state of every object, so that no Machine is missed that comes and goes between two observations.
func (w *watcher) seen(object any) {
	if m, ok := object.(*clusterv1.Machine); ok {
		w.machines.see(m.UID, m.Name, !m.DeletionTimestamp.IsZero())
	}
	w.signal()
}

func (w *watcher) gone(object any) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	if m, ok := object.(*clusterv1.Machine); ok {
		w.machines.see(m.UID, m.Name, true)
	}
	w.signal()
}

func (w *watcher) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// observe reads the objects as they are now.
func (w *watcher) observe(ctx context.Context) (Observation, error) {
	var o objects
	cluster := &clusterv1.Cluster{}
	if err := w.cache.Get(ctx, w.cluster, cluster); client.IgnoreNotFound(err) != nil {
		return Observation{}, fmt.Errorf("reading the Cluster: %w", err)
	} else if err == nil {
		o.cluster = cluster
	}
	options := []client.ListOption{client.InNamespace(w.cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: w.cluster.Name}}
	controlPlanes := &unstructured.UnstructuredList{}
	controlPlanes.SetGroupVersionKind(controlPlaneGVK)
	if err := w.cache.List(ctx, controlPlanes, options...); err != nil && !meta.IsNoMatchError(err) {
		return Observation{}, fmt.Errorf("reading the control plane: %w", err)
	}
	if len(controlPlanes.Items) > 0 {
		o.controlPlane = &controlPlanes.Items[0]
	}
	machineDeployments := &clusterv1.MachineDeploymentList{}
	if err := w.cache.List(ctx, machineDeployments, options...); err != nil {
		return Observation{}, fmt.Errorf("reading the MachineDeployments: %w", err)
	}
	machines := &clusterv1.MachineList{}
	if err := w.cache.List(ctx, machines, options...); err != nil {
		return Observation{}, fmt.Errorf("reading the Machines: %w", err)
	}
	o.machineDeployments, o.machines = machineDeployments.Items, machines.Items
	return observe(o)
}

// until calls see with an observation now and after every change, until it returns true.
func (w *watcher) until(ctx context.Context, see func(Observation) (done bool)) error {
	for {
		o, err := w.observe(ctx)
		if err != nil {
			return err
		}
		if see(o) {
			return nil
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
