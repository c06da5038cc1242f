package controllers

import (
	"context"
	"errors"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

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
