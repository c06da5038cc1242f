package objects

import (
	"bytes"
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Merge writes the difference between before and after with a merge patch, and makes after the object
// as the API server returned it. It sends no request where there is no difference.
func Merge(ctx context.Context, c client.Client, before, after client.Object) error {
	data, err := client.MergeFrom(before).Data(after)
	if err != nil {
		return fmt.Errorf("computing a patch of %T %s: %w", after, client.ObjectKeyFromObject(after), err)
	}
	if isEmpty(data) {
		return nil
	}
	return c.Patch(ctx, after, client.RawPatch(types.MergePatchType, data))
}

// Save writes what a reconcile changed in its own object: first status, then the rest, each with one
// request, and none where nothing changed. before and after are not changed. Neither a changed list of
// conditions nor anything else in status is written over a version of the object that is newer than
// before: then the error is a conflict, and the object's event has caused another reconcile. Where
// after has no finalizer and is deleted, an object that is gone is no error.
func Save(ctx context.Context, c client.Client, before, after client.Object) error {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	old, err := toUnstructured(c.Scheme(), before)
	if err != nil {
		return err
	}
	changed, err := toUnstructured(c.Scheme(), after)
	if err != nil {
		return err
	}
	if err := saveStatus(ctx, c, old, changed); err != nil {
		return fmt.Errorf("patching the status of %s %s: %w",
			changed.GetKind(), client.ObjectKeyFromObject(after), err)
	}
	old, changed = old.DeepCopy(), changed.DeepCopy()
	delete(old.Object, "status")
	delete(changed.Object, "status")
	err = Merge(ctx, c, old, changed)
	ended := !after.GetDeletionTimestamp().IsZero() && len(after.GetFinalizers()) == 0
	if err != nil && (!ended || !apierrors.IsNotFound(err)) {
		return fmt.Errorf("patching %s %s: %w", changed.GetKind(), client.ObjectKeyFromObject(after), err)
	}
	return nil
}

// saveStatus writes status alone.
func saveStatus(ctx context.Context, c client.Client, before, after *unstructured.Unstructured) error {
	old, changed := statusOf(before), statusOf(after)
	data, err := client.MergeFrom(old).Data(changed)
	if err != nil {
		return fmt.Errorf("computing the patch: %w", err)
	}
	if isEmpty(data) {
		return nil
	}
	if data, err = lockedMergeFrom(old).Data(changed); err != nil {
		return fmt.Errorf("computing the patch: %w", err)
	}
	return c.Status().Patch(ctx, changed, client.RawPatch(types.MergePatchType, data))
}

// statusOf returns an object with nothing but its identity and status.
func statusOf(object *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(object.GroupVersionKind())
	out.SetNamespace(object.GetNamespace())
	out.SetName(object.GetName())
	out.SetResourceVersion(object.GetResourceVersion())
	if status, ok := object.Object["status"]; ok {
		out.Object["status"] = status
	}
	return out.DeepCopy()
}

// isEmpty reports whether a merge patch changes nothing.
func isEmpty(patch []byte) bool { return bytes.Equal(patch, []byte("{}")) }

// lockedMergeFrom is a merge patch that the API server refuses if base is out of date.
func lockedMergeFrom(base client.Object) client.Patch {
	return client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
}

func copyOf(object client.Object) (client.Object, error) {
	copied, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an API object", object)
	}
	return copied, nil
}
