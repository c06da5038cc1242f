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

// Merge writes the difference between before and after with a merge patch, and makes after the
// object as the API server returned it. It sends no request where there is no difference.
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

// Save writes what a reconcile changed in its own object: first status, then the rest, each with
// one request, and none where nothing changed. Afterwards after has the resourceVersion of the last
// write; nothing else in it changes. Status is not written over a version of the object that is
// newer than before: then the error is a conflict, and the object's event has caused another
// reconcile. Where after is deleted and has no finalizer, an object that is gone is no error.
func Save(ctx context.Context, c client.Client, before, after client.Object) error {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	old, changed, err := bothUnstructured(c, before, after)
	if err != nil {
		return err
	}
	written, err := saveStatus(ctx, c, old, changed)
	if err != nil {
		return err
	}
	if written != nil {
		after.SetResourceVersion(written.GetResourceVersion())
	}
	delete(old.Object, "status")
	delete(changed.Object, "status")
	err = Merge(ctx, c, old, changed)
	ended := !after.GetDeletionTimestamp().IsZero() && len(after.GetFinalizers()) == 0
	if err != nil && (!ended || !apierrors.IsNotFound(err)) {
		return fmt.Errorf("patching %s %s: %w", changed.GetKind(), client.ObjectKeyFromObject(after), err)
	}
	if version := changed.GetResourceVersion(); err == nil && version != before.GetResourceVersion() {
		after.SetResourceVersion(version)
	}
	return nil
}

// SaveStatus writes the difference in status alone, as [Save] does. Afterwards after is the object
// as the API server returned it.
func SaveStatus(ctx context.Context, c client.Client, before, after client.Object) error {
	old, changed, err := bothUnstructured(c, before, after)
	if err != nil {
		return err
	}
	written, err := saveStatus(ctx, c, old, changed)
	if err != nil || written == nil {
		return err
	}
	return replace(c.Scheme(), written, after)
}

// bothUnstructured returns copies of both, in the version of before.
func bothUnstructured(
	c client.Client, before, after client.Object,
) (old, changed *unstructured.Unstructured, err error) {
	if old, err = toUnstructured(c.Scheme(), before); err != nil {
		return nil, nil, err
	}
	if changed, err = toUnstructured(c.Scheme(), after); err != nil {
		return nil, nil, err
	}
	old, changed = old.DeepCopy(), changed.DeepCopy()
	changed.SetResourceVersion(old.GetResourceVersion())
	return old, changed, nil
}

// saveStatus returns the object as the API server returned it, or nil if there was nothing to
// write.
func saveStatus(
	ctx context.Context, c client.Client, before, after *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	old, changed := statusOf(before), statusOf(after)
	data, err := client.MergeFrom(old).Data(changed)
	if err == nil && isEmpty(data) {
		return nil, nil //nolint:nilnil // see above
	}
	if err == nil {
		data, err = lockedMergeFrom(old).Data(changed)
	}
	if err == nil {
		err = c.Status().Patch(ctx, changed, client.RawPatch(types.MergePatchType, data))
	}
	if err != nil {
		return nil, fmt.Errorf("patching the status of %s %s: %w",
			changed.GetKind(), client.ObjectKeyFromObject(after), err)
	}
	return changed, nil
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
