package management

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/status"
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

// Signal tells that something has changed.
func (w *Watch) Signal() {
	select {
	case w.Changed <- struct{}{}:
	default:
	}
}

func (w *Watch) newCache(m Cluster, options cache.Options) (cache.Cache, error) {
	options.Scheme, options.Mapper = m.Scheme, m.Mapper
	options.DefaultTransform = cache.TransformStripManagedFields()
	options.DefaultWatchErrorHandler = func(ctx context.Context, r *toolscache.Reflector, err error) {
		// Other errors may be temporary: the watch is tried again.
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err) {
			w.fail(&ReadError{Item: r.TypeDescription(), Err: fmt.Errorf("watching: %w", err)})
			return
		}
		toolscache.DefaultWatchErrorHandler(ctx, r, err)
	}
	c, err := cache.New(m.Config, options)
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
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.Signal() }, UpdateFunc: func(_, _ any) { w.Signal() }, DeleteFunc: func(any) { w.Signal() },
	})
	if err != nil {
		return fmt.Errorf("watching %T: %w", kind, err)
	}
	return nil
}

// Watch watches kinds of objects of a Cluster while follow runs. follow gets a reader of the
// objects in memory. That ctx ends is no error.
func (m Cluster) Watch(
	ctx context.Context, key types.NamespacedName, kinds []client.Object,
	follow func(ctx context.Context, w *Watch, cached Cluster) error,
) error {
	ofCluster := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabel: key.Name})}
	options := cache.Options{
		DefaultNamespaces: map[string]cache.Config{key.Namespace: {}},
		ByObject: map[client.Object]cache.ByObject{
			&clusterv1.MachineDeployment{}: ofCluster, &clusterv1.Machine{}: ofCluster, &clusterv1.MachinePool{}: ofCluster,
		},
	}
	return m.watch(ctx, options, kinds, follow)
}

// WatchFleet is Watch for what FleetFacts reads of the Clusters of a namespace, or of all if it is
// empty. hidden are the kinds that FleetFacts cannot read, as it names them.
func (m Cluster) WatchFleet(
	ctx context.Context, namespace string, selector labels.Selector, hidden []string,
	follow func(ctx context.Context, w *Watch, cached Cluster) error,
) error {
	machine := capi.MetadataOf(clusterv1.GroupVersion.WithKind("Machine"))
	kinds := []client.Object{&clusterv1.Cluster{}}
	for kind, object := range map[string]client.Object{gatesOf: &v1alpha1.UpgradeGate{}, machinesOf: machine} {
		isHidden := func(s string) bool { return strings.HasPrefix(s, kind+" ") }
		if !slices.ContainsFunc(hidden, isHidden) {
			kinds = append(kinds, object)
		}
	}
	options := cache.Options{
		// Reading a hidden kind is an error, instead of a watch that never begins.
		ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			&clusterv1.Cluster{}: {Label: selector}, machine: {Transform: keepUpdate},
		},
	}
	if namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	return m.watch(ctx, options, kinds, follow)
}

// keepUpdate drops of the metadata of a Machine what FleetFacts are not made from, because a fleet
// may have 30,000 of them.
func keepUpdate(object any) (any, error) {
	m, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	m.ManagedFields, m.Finalizers = nil, nil
	maps.DeleteFunc(m.Annotations, func(key, _ string) bool { return !status.IsPhaseAnnotation(key) })
	return m, nil
}

func (m Cluster) watch(
	ctx context.Context, options cache.Options, kinds []client.Object,
	follow func(ctx context.Context, w *Watch, cached Cluster) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &Watch{Changed: make(chan struct{}, 1), fail: cancel}
	c, err := w.newCache(m, options)
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
