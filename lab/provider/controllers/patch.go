package controllers

import (
	"context"
	"errors"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// pausable is an object with the condition Paused.
type pausable interface {
	client.Object
	conditions.Setter
	conditions.Getter
}

// admit reports whether to reconcile an object now: not while it or its Cluster is paused. An object that is not being
// deleted gets the finalizer first. cluster is nil where the Cluster is gone.
func admit(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, object pausable, finalizer string) (bool, error) {
	if cluster != nil {
		isPaused, requeue, err := paused.EnsurePausedCondition(ctx, c, cluster, object)
		if err != nil || isPaused || requeue {
			return false, err
		}
	}
	if !object.GetDeletionTimestamp().IsZero() {
		return true, nil
	}
	added, err := finalizers.EnsureFinalizer(ctx, c, object, finalizer)
	return err == nil && !added, err
}

// record calls f and writes what it has changed of the object, also when it fails.
func record(ctx context.Context, c client.Client, object client.Object, f func() error) error {
	helper, err := patch.NewHelper(object, c)
	if err != nil {
		return err
	}
	err = f()
	owned := patch.WithOwnedConditions{Conditions: []string{clusterv1.ReadyCondition}}
	return errors.Join(err, helper.Patch(ctx, object, owned))
}

// release removes the finalizer, so that the object goes.
func release(ctx context.Context, c client.Client, object client.Object, finalizer string) error {
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok || !controllerutil.RemoveFinalizer(object, finalizer) {
		return nil
	}
	return client.IgnoreNotFound(c.Patch(ctx, object, client.MergeFrom(before)))
}
