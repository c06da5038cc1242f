package objects

import (
	"context"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/internal/keyed"
)

// Waits is a controller that ends waits for a cache to show a write, if the API server has lost the
// write. Cluster API's controller waits until the cache has reached the write's resourceVersion. After
// etcd was restored from a backup, resourceVersions are lower, and may stay so for hours.
//
// Waits is safe for concurrent use once Controller is set.
type Waits struct {
	// Controller is the one whose reconciler was made by Reconciler. It must be set before the manager
	// starts.
	capicontroller.Controller

	live client.Reader

	mu      sync.Mutex
	waiting map[client.ObjectKey]*unseen
}

// unseen are the writes that a cache must show before an object is reconciled.
type unseen struct {
	uid      types.UID
	versions map[capicontroller.GroupVersionKindType]string
	timer    *time.Timer
}

// NewWaits returns Waits without a Controller. live reads from the API server.
func NewWaits(live client.Reader) *Waits {
	return &Waits{live: live, waiting: map[client.ObjectKey]*unseen{}}
}

// lookTimeout bounds the requests of one look at the API server.
const lookTimeout = 10 * time.Second

// Reconciler returns a reconciler that calls inner, and notes that the object's wait is over.
func (w *Waits) Reconciler(inner reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		w.end(request.NamespacedName)
		return inner.Reconcile(ctx, request)
	})
}

func (w *Waits) end(object client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if over := w.waiting[object]; over != nil {
		over.timer.Stop()
		delete(w.waiting, object)
	}
}

// DeferNextReconcileUntilCacheUpToDate implements capicontroller.Controller. The wait ends after
// keyed.CacheLag at the earliest, if the API server has not reached the version then.
func (w *Waits) DeferNextReconcileUntilCacheUpToDate(
	object metav1.Object, kind capicontroller.GroupVersionKindType, version string,
) {
	w.Controller.DeferNextReconcileUntilCacheUpToDate(object, kind, version)
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: object.GetName()}
	w.mu.Lock()
	defer w.mu.Unlock()
	current := w.waiting[key]
	if current == nil || current.uid != object.GetUID() {
		if current != nil {
			current.timer.Stop()
		}
		current = &unseen{uid: object.GetUID(), versions: map[capicontroller.GroupVersionKindType]string{}}
		current.timer = time.AfterFunc(keyed.CacheLag, func() { w.look(key, current) })
		w.waiting[key] = current
	}
	current.versions[kind] = version
}

// look ends a wait for a version that the API server does not have. Otherwise the cache is behind, and
// the wait goes on: to decide on what the cache shows could create Machines twice.
func (w *Waits) look(object client.ObjectKey, looked *unseen) {
	w.mu.Lock()
	isOver := w.waiting[object] != looked
	versions := maps.Clone(looked.versions)
	w.mu.Unlock()
	if isOver {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	lost := false
	for kind, version := range versions {
		lost = lost || w.isLost(ctx, object.Namespace, kind, version)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.waiting[object] != looked:
	case lost:
		delete(w.waiting, object)
		w.ClearConsistencyStore(object, looked.uid)
		ctrl.Log.WithName("waits").Info("The API server has lost what this process wrote, as after a restore of "+
			"its etcd; objects are read again", "object", object.String())
	default:
		looked.timer.Reset(keyed.CacheLag)
	}
}

// isLost reports whether the API server is at an older version than one that was written. An error
// counts as no.
func (w *Waits) isLost(
	ctx context.Context, namespace string, kind capicontroller.GroupVersionKindType, written string,
) bool {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := w.live.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(list.ResourceVersion, written)
	return err == nil && order < 0
}
