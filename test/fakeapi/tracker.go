package fakeapi

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clienttesting "k8s.io/client-go/testing"
)

// tracker stores objects with a UID each, and a generation that counts changes of all but metadata and status.
type tracker struct {
	clienttesting.ObjectTracker
	uids int
}

func newTracker(scheme *runtime.Scheme) *tracker {
	return &tracker{ObjectTracker: clienttesting.NewFieldManagedObjectTracker(
		scheme, serializer.NewCodecFactory(scheme).UniversalDecoder(), managedfields.NewDeducedTypeConverter(),
	)}
}

func (t *tracker) Create(gvr schema.GroupVersionResource, object runtime.Object, namespace string, opts ...metav1.CreateOptions) error {
	if err := t.born(object); err != nil {
		return err
	}
	return t.ObjectTracker.Create(gvr, object, namespace, opts...)
}

func (t *tracker) Update(gvr schema.GroupVersionResource, object runtime.Object, namespace string, opts ...metav1.UpdateOptions) error {
	if err := t.count(gvr, object, namespace); err != nil {
		return err
	}
	return t.ObjectTracker.Update(gvr, object, namespace, opts...)
}

func (t *tracker) Patch(gvr schema.GroupVersionResource, patched runtime.Object, namespace string, opts ...metav1.PatchOptions) error {
	if err := t.count(gvr, patched, namespace); err != nil {
		return err
	}
	return t.ObjectTracker.Patch(gvr, patched, namespace, opts...)
}

// Apply learns what an intent comes to only afterwards, and then completes it.
func (t *tracker) Apply(gvr schema.GroupVersionResource, intent runtime.Object, namespace string, opts ...metav1.PatchOptions) error {
	accessor, err := meta.Accessor(intent)
	if err != nil {
		return err
	}
	before, err := t.Get(gvr, namespace, accessor.GetName())
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	created := err != nil
	if err := t.ObjectTracker.Apply(gvr, intent, namespace, opts...); err != nil {
		return err
	}
	after, err := t.Get(gvr, namespace, accessor.GetName())
	if err != nil {
		return err
	}
	if created {
		err = t.born(after)
	} else {
		err = setGeneration(before, after)
	}
	if err == nil {
		err = releaseStatus(after)
	}
	if err != nil {
		return err
	}
	return t.ObjectTracker.Update(gvr, after, namespace)
}

// releaseStatus removes status from what was applied: it is not part of an intent, and the tracker
// makes its manager own it.
func releaseStatus(object runtime.Object) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	entries := accessor.GetManagedFields()
	for i, entry := range entries {
		if entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" {
			continue
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			return err
		}
		delete(fields, "f:status")
		raw, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		entries[i].FieldsV1.SetRawBytes(raw)
	}
	accessor.SetManagedFields(entries)
	return nil
}

func (t *tracker) born(object runtime.Object) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	if accessor.GetUID() == "" {
		t.uids++
		accessor.SetUID(types.UID(fmt.Sprintf("uid-%d", t.uids)))
	}
	if accessor.GetResourceVersion() == "" {
		accessor.SetResourceVersion("1")
	}
	accessor.SetGeneration(1)
	return nil
}

// count sets the generation that an object has after an update.
func (t *tracker) count(gvr schema.GroupVersionResource, object runtime.Object, namespace string) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	before, err := t.Get(gvr, namespace, accessor.GetName())
	if err != nil {
		return err
	}
	return setGeneration(before, object)
}

func setGeneration(before, after runtime.Object) error {
	was, err := content(before)
	if err != nil {
		return err
	}
	is, err := content(after)
	if err != nil {
		return err
	}
	old, err := meta.Accessor(before)
	if err != nil {
		return err
	}
	accessor, err := meta.Accessor(after)
	if err != nil {
		return err
	}
	accessor.SetGeneration(old.GetGeneration())
	if !equality.Semantic.DeepEqual(was, is) || old.GetDeletionTimestamp().IsZero() != accessor.GetDeletionTimestamp().IsZero() {
		accessor.SetGeneration(old.GetGeneration() + 1)
	}
	return nil
}

// content is an object without metadata and status.
func content(object runtime.Object) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object.DeepCopyObject())
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"metadata", "status", "apiVersion", "kind"} {
		delete(fields, key)
	}
	return fields, nil
}
