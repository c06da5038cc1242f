package objects

import (
	"context"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// policiesRetry is how often a controller asks whether UpdatePolicies are installed.
const policiesRetry = 5 * time.Second

// PolicyWatch wakes the objects of one kind in the namespace of an UpdatePolicy that has changed.
type PolicyWatch struct {
	Reader client.Reader
	// Exist reports whether UpdatePolicies are installed. They are watched as soon as it returns true.
	Exist func() (bool, error)
	// NewList returns an empty list of the objects.
	NewList func() client.ObjectList
	// Filter is the value of Cluster API's watch label; empty means all.
	Filter string
}

// Source is the source of changes of UpdatePolicies: not of their status.
func (w PolicyWatch) Source(c cache.Cache) source.Source {
	return lateSource{
		source: source.Kind[client.Object](c, &v1alpha1.UpdatePolicy{},
			handler.EnqueueRequestsFromMapFunc(w.Requests), predicate.GenerationChangedPredicate{}),
		exists: w.Exist, retry: policiesRetry,
	}
}

// Requests returns requests for the objects in the namespace of an UpdatePolicy. It leaves out
// those that Filter leaves to another manager: no event filter looks at this source. An error is
// logged, and means none.
func (w PolicyWatch) Requests(ctx context.Context, policy client.Object) []ctrl.Request {
	list := w.NewList()
	err := w.Reader.List(ctx, list, client.InNamespace(policy.GetNamespace()))
	var requests []ctrl.Request
	if err == nil {
		err = apimeta.EachListItem(list, func(item runtime.Object) error {
			o, ok := item.(client.Object)
			if ok && (w.Filter == "" || labels.HasWatchLabel(o, w.Filter)) {
				requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o)})
			}
			return nil
		})
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the objects of an UpdatePolicy",
			"UpdatePolicy", client.ObjectKeyFromObject(policy))
	}
	return requests
}

// lateSource is a source of events whose kind may be installed after the controller has started.
// The controller does not wait for it: it has no method WaitForSync.
type lateSource struct {
	source source.Source
	// exists reports whether the kind is installed.
	exists func() (bool, error)
	retry  time.Duration
}

// Start begins the source as soon as its kind is installed. An error of exists means that nobody
// knows: each reconcile returns that error, so it is not reported here.
func (s lateSource) Start(
	ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request],
) error {
	go func() {
		err := wait.PollUntilContextCancel(ctx, s.retry, true, func(context.Context) (bool, error) {
			exists, err := s.exists()
			return exists && err == nil, nil
		})
		if err == nil {
			err = s.source.Start(ctx, queue)
		}
		if err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Changes of UpdatePolicies are not seen at once")
		}
	}()
	return nil
}
