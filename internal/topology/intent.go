package topology

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster/structuredmerge"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/untrusted"
)

// computeIntent reduces a desired object to what the topology has an opinion on, as the stock manager does: identity, labels, annotations, owner
// references and spec, without the ignored paths.
func computeIntent(scheme *runtime.Scheme, desired client.Object, ignore structuredmerge.IgnorePaths) (*unstructured.Unstructured, error) {
	object, err := toUnstructured(scheme, desired)
	if err != nil {
		return nil, err
	}
	intent := map[string]any{"apiVersion": object.GetAPIVersion(), "kind": object.GetKind()}
	metadata := map[string]any{}
	if all, ok := object.Object["metadata"].(map[string]any); ok {
		for _, field := range []string{"name", "namespace", "labels", "annotations", "ownerReferences"} {
			if value, ok := all[field]; ok {
				metadata[field] = value
			}
		}
	}
	intent["metadata"] = metadata
	if spec, ok := object.Object["spec"]; ok {
		intent["spec"] = spec
	}
	reduced := (&unstructured.Unstructured{Object: intent}).DeepCopy()
	for _, path := range ignore {
		removePath(reduced.Object, path)
	}
	return reduced, nil
}

// removePath removes a field, and the maps around it that it leaves empty.
func removePath(fields map[string]any, path []string) {
	if len(path) > 1 {
		inner, ok := fields[path[0]].(map[string]any)
		if !ok {
			return
		}
		before := len(inner)
		removePath(inner, path[1:])
		if len(inner) > 0 || before == 0 {
			return
		}
	}
	delete(fields, path[0])
}

// computeIgnoredPaths are the parts of an API server's endpoint that a provider's type renders as zero values when nobody set them:
// applying them would overwrite what the provider's controller sets.
func computeIgnoredPaths(object *unstructured.Unstructured) structuredmerge.IgnorePaths {
	var ignore structuredmerge.IgnorePaths
	endpoint, _, err := unstructured.NestedMap(object.Object, "spec", "controlPlaneEndpoint")
	if err != nil {
		return nil
	}
	if host, ok := endpoint["host"]; ok && host == "" {
		ignore = append(ignore, []string{"spec", "controlPlaneEndpoint", "host"})
	}
	if port, ok := endpoint["port"]; ok && port == int64(0) {
		ignore = append(ignore, []string{"spec", "controlPlaneEndpoint", "port"})
	}
	return ignore
}

// toUnstructured returns the object itself if it is unstructured, else a conversion of it.
func toUnstructured(scheme *runtime.Scheme, object client.Object) (*unstructured.Unstructured, error) {
	if already, ok := object.(*unstructured.Unstructured); ok {
		return already, nil
	}
	converted := &unstructured.Unstructured{}
	if err := scheme.Convert(object, converted, nil); err != nil {
		return nil, fmt.Errorf("converting %T %s: %w", object, name(object), err)
	}
	return converted, nil
}

// normalize reads an object as the API server wrote it into the Go type that a cache would give it, so that both have one form.
func normalize(scheme *runtime.Scheme, written *unstructured.Unstructured, like client.Object) (client.Object, error) {
	if _, ok := like.(*unstructured.Unstructured); ok {
		return written, nil
	}
	object, err := scheme.New(written.GroupVersionKind())
	if err != nil {
		return nil, fmt.Errorf("making a %s: %w", written.GetKind(), err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(written.Object, object); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", written.GetKind(), name(written), err)
	}
	typed, ok := object.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is not an API object", written.GetKind())
	}
	return typed, nil
}

// computeFingerprint covers what an apply by our field manager depends on: the spec, and the metadata that we own. Status, other managers' labels
// and annotations, finalizers and the resourceVersion are not part of it. It is zero for an object that we own nothing of.
func computeFingerprint(scheme *runtime.Scheme, object client.Object) (digest, error) {
	content, err := toUnstructured(scheme, object)
	if err != nil {
		return digest{}, err
	}
	owned, err := ownedFields(content)
	if err != nil || len(owned) == 0 {
		return digest{}, err
	}
	return computeDigest(map[string]any{
		"apiVersion":  content.GetAPIVersion(),
		"uid":         content.GetUID(),
		"name":        content.GetName(),
		"spec":        content.Object["spec"],
		"labels":      ownedValues(owned, "f:labels", content.GetLabels()),
		"annotations": ownedValues(owned, "f:annotations", content.GetAnnotations()),
		"owners":      content.GetOwnerReferences(),
		"owned":       owned,
	})
}

// ownedFields are the fields that our field manager applied, as managed fields say it.
func ownedFields(object *unstructured.Unstructured) ([]any, error) {
	var owned []any
	for _, entry := range object.GetManagedFields() {
		if entry.Manager != structuredmerge.TopologyManagerName || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var fields any
		if err := untrusted.Object.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			return nil, fmt.Errorf("reading the managed fields of %s %s: %w", object.GetKind(), name(object), err)
		}
		owned = append(owned, fields)
	}
	return owned, nil
}

// ownedValues picks the labels or annotations that managed fields name.
func ownedValues(owned []any, kind string, values map[string]string) map[string]string {
	picked := map[string]string{}
	for _, entry := range owned {
		fields, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		keys, _, err := unstructured.NestedFieldNoCopy(fields, "f:metadata", kind)
		if names, ok := keys.(map[string]any); ok && err == nil {
			for field := range names {
				key := strings.TrimPrefix(field, "f:")
				picked[key] = values[key]
			}
		}
	}
	return picked
}

// computeDigest digests a value's JSON. Maps are sorted in it.
func computeDigest(value any) (digest, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return digest{}, fmt.Errorf("encoding: %w", err)
	}
	return sha256.Sum256(encoded), nil
}

// changedFields names the fields whose value in the intent is not the object's, sorted, for logs: never the values, which may be secret.
func changedFields(object, intent map[string]any) []string {
	var changed []string
	for field, want := range intent {
		have := object[field]
		wantFields, ok := want.(map[string]any)
		haveFields, also := have.(map[string]any)
		if ok && also {
			for _, inner := range changedFields(haveFields, wantFields) {
				changed = append(changed, field+"."+inner)
			}
			continue
		}
		if !jsonEqual(have, want) {
			changed = append(changed, field)
		}
	}
	slices.Sort(changed)
	return changed
}

func jsonEqual(a, b any) bool {
	left, leftErr := json.Marshal(a)
	right, rightErr := json.Marshal(b)
	return leftErr == nil && rightErr == nil && bytes.Equal(left, right)
}
