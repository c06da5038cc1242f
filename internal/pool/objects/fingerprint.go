package objects

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/untrusted"
)

// Digest identifies a value by the hash of its JSON.
type Digest [sha256.Size]byte

// DigestOf returns the Digest of a value.
func DigestOf(value any) (Digest, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return Digest{}, fmt.Errorf("encoding %T: %w", value, err)
	}
	return sha256.Sum256(encoded), nil
}

// intentFields are the fields of metadata that are part of an intent.
var intentFields = []string{
	"name", "namespace", "uid", "labels", "annotations", "finalizers", "ownerReferences",
}

// intentOf reduces an object to what controllers of pools have an opinion on: identity, labels,
// annotations, finalizers, owners and spec.
func intentOf(scheme *runtime.Scheme, desired client.Object) (*unstructured.Unstructured, error) {
	object, err := toUnstructured(scheme, desired)
	if err != nil {
		return nil, err
	}
	metadata := map[string]any{}
	if all, ok := object.Object["metadata"].(map[string]any); ok {
		for _, field := range intentFields {
			if value, ok := all[field]; ok && value != nil {
				metadata[field] = value
			}
		}
	}
	intent := map[string]any{
		"apiVersion": object.GetAPIVersion(), "kind": object.GetKind(), "metadata": metadata,
	}
	if spec, ok := object.Object["spec"]; ok {
		intent["spec"] = spec
	}
	return (&unstructured.Unstructured{Object: intent}).DeepCopy(), nil
}

// intentDigest identifies an intent. The UID is not part of it: it is a precondition, and changes
// no field.
func intentDigest(intent *unstructured.Unstructured) (Digest, error) {
	anonymous := intent.DeepCopy()
	anonymous.SetUID("")
	return DigestOf(anonymous.Object)
}

// fingerprint covers what the answer to an intent depends on: the identity of the object, the
// fields that the field manager owns, the labels and annotations among them, and spec and owners if
// they are in the intent or the manager owns part of them. Status, resourceVersion, and the
// metadata of others are not part of it. ok is false for an object of which the manager owns
// nothing, as far as is known.
func fingerprint(
	scheme *runtime.Scheme, object client.Object, manager string, intent *unstructured.Unstructured,
) (sum Digest, ok bool, err error) {
	entries := ownedBy(object, manager)
	if len(entries) == 0 {
		return Digest{}, false, nil
	}
	content, err := toUnstructured(scheme, object)
	if err != nil {
		return Digest{}, false, err
	}
	parts := map[string]any{"apiVersion": content.GetAPIVersion(), "uid": content.GetUID()}
	_, wantsSpec := intent.Object["spec"]
	wantsOwners := len(intent.GetOwnerReferences()) > 0
	labels, annotations := map[string]string{}, map[string]string{}
	owned := make([]string, len(entries))
	for i, entry := range entries {
		raw := entry.FieldsV1.GetRawBytes()
		owned[i] = entry.APIVersion + string(raw)
		var fields map[string]any
		if err := untrusted.Object.Unmarshal(raw, &fields); err != nil {
			return Digest{}, false, fmt.Errorf("reading the managed fields of %s %s: %w",
				content.GetKind(), client.ObjectKeyFromObject(object), err)
		}
		_, ownsSpec := fields["f:spec"]
		wantsSpec = wantsSpec || ownsSpec
		_, ownsOwners, _ := unstructured.NestedFieldNoCopy(fields, "f:metadata", "f:ownerReferences")
		wantsOwners = wantsOwners || ownsOwners
		copyOwned(labels, content.GetLabels(), fields, "f:labels")
		copyOwned(annotations, content.GetAnnotations(), fields, "f:annotations")
	}
	parts["owned"], parts["labels"], parts["annotations"] = owned, labels, annotations
	if wantsSpec {
		parts["spec"] = content.Object["spec"]
	}
	if wantsOwners {
		parts["owners"] = content.GetOwnerReferences()
	}
	sum, err = DigestOf(parts)
	return sum, err == nil, err
}

// ownedBy returns the entries of what a field manager applied, sorted by API version.
func ownedBy(object client.Object, manager string) []metav1.ManagedFieldsEntry {
	var out []metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		if isApplied(entry, manager) && entry.FieldsV1 != nil {
			out = append(out, entry)
		}
	}
	slices.SortFunc(out, func(a, b metav1.ManagedFieldsEntry) int {
		return strings.Compare(a.APIVersion, b.APIVersion)
	})
	return out
}

// isApplied reports whether an entry lists what a field manager applied, outside subresources.
func isApplied(entry metav1.ManagedFieldsEntry, manager string) bool {
	return entry.Manager == manager && entry.Subresource == "" &&
		entry.Operation == metav1.ManagedFieldsOperationApply
}

// copyOwned copies the labels or annotations that managed fields name.
func copyOwned(target, values map[string]string, fields map[string]any, kind string) {
	keys, _, err := unstructured.NestedFieldNoCopy(fields, "f:metadata", kind)
	if err != nil {
		return // The manager owns no map of this kind.
	}
	names, _ := keys.(map[string]any)
	for field := range maps.Keys(names) {
		key := strings.TrimPrefix(field, "f:")
		if value, ok := values[key]; ok {
			target[key] = value
		}
	}
}
