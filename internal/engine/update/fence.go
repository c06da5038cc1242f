package update

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// This file keeps a process from acting on what it read before somebody else, such as the process that leads now, changed it. Every record is written under the
// resource version of the object that it was decided on. Cluster API writes status to the same objects all the time, so a conflict alone says little: if all
// that the decision depends on is unchanged, so is the decision, and the record is written under the new version. Otherwise the call ends, and the next one
// reads and decides anew.

const (
	// maxConflicts bounds how often one record is tried under a newer version.
	maxConflicts = 5
	// freshFor is how long a Machine counts as unchanged after it was read or written. It is far below the 15 s after which another process may lead.
	freshFor = 3 * time.Second
)

// staleError reports that an object is no longer what was decided on. Nothing was written.
type staleError struct{ object string }

func (e *staleError) Error() string {
	return e.object + " was changed meanwhile; it is read and decided on again"
}

func isStale(err error) bool {
	_, ok := errors.AsType[*staleError](err)
	return ok
}

// basis is all of an object that decisions depend on: everything but status, and of a Machine's status its node and whether its owner moved on.
type basis struct {
	UID                 types.UID
	Generation          int64
	Deleting            bool
	Labels, Annotations map[string]string
	Owners              []metav1.OwnerReference
	Node                string
	OwnerMovedOn        bool
}

func basisOf(object client.Object) basis {
	b := basis{
		UID: object.GetUID(), Generation: object.GetGeneration(), Deleting: !object.GetDeletionTimestamp().IsZero(),
		Labels: object.GetLabels(), Annotations: object.GetAnnotations(), Owners: object.GetOwnerReferences(),
	}
	if m, ok := object.(*clusterv1.Machine); ok {
		b.Node, b.OwnerMovedOn = m.Status.NodeRef.Name, ownerMovedOn(m)
	}
	return b
}

// refresh reads an object again, and returns a *staleError if what decisions depend on has changed. The object becomes the new one only if it has not.
func (e *Engine) refresh(ctx context.Context, object client.Object) error {
	key := client.ObjectKeyFromObject(object)
	fresh, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("a copy of %T is no object", object)
	}
	switch err := e.Live.Get(ctx, key, fresh); {
	case apierrors.IsNotFound(err):
		return &staleError{object: key.String()}
	case err != nil:
		return fmt.Errorf("reading %s again: %w", key, err)
	case !equality.Semantic.DeepEqual(basisOf(object), basisOf(fresh)):
		return &staleError{object: key.String()}
	}
	object.SetResourceVersion(fresh.GetResourceVersion())
	return nil
}

// applyAnnotations writes a patch under the resource version of an object that was read live, and leaves the object as the API server returned it. The error
// is a *staleError if the object is no longer what was decided on.
func (e *Engine) applyAnnotations(ctx context.Context, object client.Object, p annotationPatch) error {
	key := client.ObjectKeyFromObject(object)
	for range maxConflicts {
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": p, "resourceVersion": object.GetResourceVersion()}})
		if err != nil {
			return fmt.Errorf("encoding a patch: %w", err)
		}
		written, ok := object.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("a copy of %T is no object", object)
		}
		err = e.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, data))
		if err == nil {
			return replace(object, written)
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("writing annotations of %s: %w", key, err)
		}
		if err := e.refresh(ctx, object); err != nil {
			return err
		}
	}
	return &staleError{object: key.String()}
}

// replace makes an object what the API server returned.
func replace(object, written client.Object) error {
	switch into := object.(type) {
	case *clusterv1.Machine:
		if from, ok := written.(*clusterv1.Machine); ok {
			from.DeepCopyInto(into)
			return nil
		}
	case *clusterv1.MachineSet:
		if from, ok := written.(*clusterv1.MachineSet); ok {
			from.DeepCopyInto(into)
			return nil
		}
	}
	return fmt.Errorf("no way to replace a %T by a %T", object, written)
}

// confirm makes sure, right before an effect, that the Machine is still what was decided on: a process that was frozen since then may have a successor that
// has ended the update. It reads only if the Machine was neither read nor written just before.
func (r *run) confirm(ctx context.Context) error {
	now := r.Now()
	if age := now.Sub(r.confirmed); age >= 0 && age < freshFor {
		return nil
	}
	if err := r.refresh(ctx, r.machine); err != nil {
		return err
	}
	r.confirmed = now
	return nil
}
