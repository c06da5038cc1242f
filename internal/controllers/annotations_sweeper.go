package controllers

import (
	"context"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// sweepRetry is the pause before the objects are listed again after a list failed.
const sweepRetry = 15 * time.Second

// annotationSweeper is a manager.Runnable that runs on the leader only. It hands each object that an earlier
// process may have left something on to the queue of its controller. The queue retries each object
// by itself, with a growing delay, so that a broken object delays no other one.
type annotationSweeper struct {
	engine AnnotationEngine
	every  time.Duration
	// counts selects the objects that this process is responsible for.
	counts predicate.Predicate
	// machines and groups are the sources of the two controllers.
	machines, groups chan event.TypedGenericEvent[client.Object]
}

func newSweeper(o AnnotationOptions, every time.Duration) *annotationSweeper {
	return &annotationSweeper{
		engine: o.Engine, every: every, counts: (&controllers{AnnotationOptions: o}).filtered(),
		machines: make(chan event.TypedGenericEvent[client.Object]),
		groups:   make(chan event.TypedGenericEvent[client.Object]),
	}
}

// Start sweeps until every kind has been listed once, and returns then or when ctx is cancelled. It
// never returns an error.
func (s *annotationSweeper) Start(ctx context.Context) error {
	ctx = ctrl.LoggerInto(ctx, ctrl.Log.WithName("in-place-upgrade"))
	for ctx.Err() == nil {
		err := s.engine.SweepUpgrades(ctx, func(object client.Object) { s.enqueue(ctx, object) })
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Looking for what upgrades in place have left")
		}
		select {
		case <-ctx.Done():
		case <-time.After(s.every):
		}
	}
	return nil
}

// enqueue blocks until the controller takes the object or ctx is cancelled.
func (s *annotationSweeper) enqueue(ctx context.Context, object client.Object) {
	if !s.counts.Generic(event.GenericEvent{Object: object}) {
		return
	}
	queue := s.groups
	if object.GetObjectKind().GroupVersionKind() == clusterv1.GroupVersion.WithKind("Machine") {
		queue = s.machines
	}
	select {
	case queue <- event.TypedGenericEvent[client.Object]{Object: object}:
	case <-ctx.Done():
	}
}
