package management

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Watch tells when something has changed.
type Watch struct {
	// Changed holds one signal at most: what has changed is looked up all at once.
	Changed chan struct{}
	fail    context.CancelCauseFunc
}

// Ended returns why a watch has ended with ctx; nil for an interruption.
func (w *Watch) Ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

func (w *Watch) newCache(m Cluster, key types.NamespacedName) (cache.Cache, error) {
	ofCluster := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabel: key.Name})}
	c, err := cache.New(m.Config, cache.Options{
		Scheme: m.Scheme, Mapper: m.Mapper,
		DefaultNamespaces: map[string]cache.Config{key.Namespace: {}},
		DefaultTransform:  cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&clusterv1.MachineDeployment{}: ofCluster, &clusterv1.Machine{}: ofCluster, &clusterv1.MachinePool{}: ofCluster,
		},
		DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
			// Other errors may be temporary: the watch is tried again.
			if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err) {
				w.fail(&ReadError{Item: r.TypeDescription(), Err: fmt.Errorf("watching: %w", err)})
				return
			}
			toolscache.DefaultWatchErrorHandler(ctx, r, err)
		},
	})
	if err != nil {
		return nil, &ReadError{Item: "the management cluster", Err: err}
	}
	return c, nil
}

// add watches the objects of a kind. One that the server does not know has none.
func (w *Watch) add(ctx context.Context, c cache.Cache, kind client.Object) error {
	informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return &ReadError{Item: fmt.Sprintf("%T", kind), Err: err}
	}
	signal := func() {
		select {
		case w.Changed <- struct{}{}:
		default:
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { signal() }, UpdateFunc: func(_, _ any) { signal() }, DeleteFunc: func(any) { signal() },
	})
	if err != nil {
		return fmt.Errorf("watching %T: %w", kind, err)
	}
	return nil
}

// Watch watches kinds of objects of a Cluster while follow runs. follow gets a reader of the objects in
// memory. That ctx ends is no error.
func (m Cluster) Watch(
	ctx context.Context, key types.NamespacedName, kinds []client.Object,
	follow func(ctx context.Context, w *Watch, cached Cluster) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &Watch{Changed: make(chan struct{}, 1), fail: cancel}
	c, err := w.newCache(m, key)
	if err != nil {
		return err
	}
	for _, o := range kinds {
		if err := w.add(ctx, c, o); err != nil {
			return err
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	running.Go(func() {
		if err := c.Start(ctx); err != nil {
			cancel(fmt.Errorf("watching the management cluster: %w", err))
		}
	})
	if !c.WaitForCacheSync(ctx) {
		return w.Ended(ctx)
	}
	cached := m
	cached.Reader, cached.Cached = c, true
	return follow(ctx, w, cached)
}
