package machinedeployment

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// policiesRetry is how often the controller asks whether UpdatePolicies are installed.
const policiesRetry = 5 * time.Second

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

// policies is the source of changes of UpdatePolicies: not of their status.
func (r *Reconciler) policies(cache cache.Cache) source.Source {
	return lateSource{
		source: source.Kind[client.Object](cache, &v1alpha1.UpdatePolicy{},
			handler.EnqueueRequestsFromMapFunc(r.ForPolicy), predicate.GenerationChangedPredicate{}),
		exists: r.PoliciesExist, retry: policiesRetry,
	}
}

// ForPolicy returns requests for the MachineDeployments in the namespace of an UpdatePolicy. It
// leaves out those that WatchFilter leaves to another manager: no event filter looks at this
// source. An error is logged, and means none.
func (r *Reconciler) ForPolicy(ctx context.Context, o client.Object) []ctrl.Request {
	list := &clusterv1.MachineDeploymentList{}
	if err := r.Client.List(ctx, list, client.InNamespace(o.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list MachineDeployments of an UpdatePolicy",
			"UpdatePolicy", client.ObjectKeyFromObject(o))
		return nil
	}
	requests := make([]ctrl.Request, 0, len(list.Items))
	for _, md := range list.Items {
		if r.WatchFilter != "" && !labels.HasWatchLabel(&md, r.WatchFilter) {
			continue
		}
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&md)})
	}
	return requests
}
