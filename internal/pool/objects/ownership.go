package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/untrusted"
)

// Field managers in the managed fields of objects, besides the caller's.
const (
	// beforeFirstApply gets all fields of an object without managed fields from the API server,
	// when somebody applies to it.
	beforeFirstApply = "before-first-apply"
	// updateManager is that of Cluster API's managers when they update and patch.
	updateManager = "manager"
)

// seedFields is what an entry owns whose manager has applied nothing so far. An entry must own
// something, or the API server drops it. The name belongs to no manager, so the manager's first
// apply removes it from the entry.
const seedFields = `{"f:metadata":{"f:name":{}}}`

// conflictRetries are those of a change of managed fields of an object that another writer changes
// at the same time.
var conflictRetries = wait.Backoff{
	Steps: 3, Duration: 10 * time.Millisecond, Factor: 1, Jitter: 0.1,
}

// RestoreOwnership gives an object managed fields back that the API server has lost, see
// https://github.com/kubernetes/kubernetes/issues/136919. Without them, the manager's next apply
// would make the API server name another owner of every field, and a field that leaves the intent
// would stay in the object. It reports whether it wrote; then object is the object as the API
// server returned it. The write fails with a conflict if object is out of date.
func RestoreOwnership(
	ctx context.Context, c client.Client, object client.Object, manager string,
) (restored bool, err error) {
	if !IsOwnershipLost(object) {
		return false, nil
	}
	kind, err := c.GroupVersionKindFor(object)
	if err != nil {
		return false, fmt.Errorf("finding the kind of %T: %w", object, err)
	}
	entries := slices.DeleteFunc(slices.Clone(object.GetManagedFields()), isStale)
	isOurs := func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == manager }
	if !slices.ContainsFunc(entries, isOurs) {
		entries = append(entries, seed(manager, kind.GroupVersion().String()))
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": entries},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": object.GetResourceVersion()},
	})
	if err != nil {
		return false, fmt.Errorf("encoding managed fields: %w", err)
	}
	name := client.ObjectKeyFromObject(object)
	ctrl.LoggerFrom(ctx).Info("Restoring managed fields that the API server has lost",
		"kind", kind.Kind, "object", name)
	if err := c.Patch(ctx, object, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return false, fmt.Errorf("restoring the managed fields of %s %s: %w", kind.Kind, name, err)
	}
	return true, nil
}

// IsOwnershipLost reports whether the API server has lost managed fields of an object.
func IsOwnershipLost(object client.Object) bool {
	entries := object.GetManagedFields()
	return len(entries) == 0 || slices.ContainsFunc(entries, isStale)
}

func isStale(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == beforeFirstApply }

// SplitOwnership moves an object from the form of managed fields that Cluster API 1.11 and before
// had to that of 1.12: metadataManager owns labels and annotations, and manager the rest. In the
// old form manager owns the label of the Cluster. The entries of manager and of Cluster API's
// updates go, and the next apply of each manager owns its part again. An object in the new form
// costs no request. An object in the old form, see [OwnsClusterLabel], must have all managed
// fields.
func SplitOwnership(
	ctx context.Context, c client.Client, object client.Object, manager, metadataManager string,
) error {
	kind, err := c.GroupVersionKindFor(object)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", object, err)
	}
	name := client.ObjectKeyFromObject(object)
	old, err := OwnsClusterLabel(object, manager)
	if err != nil {
		return fmt.Errorf("reading the managed fields of %s %s: %w", kind.Kind, name, err)
	}
	if !old {
		return nil
	}
	base, err := copyOf(object)
	if err != nil {
		return err
	}
	isOld := func(e metav1.ManagedFieldsEntry) bool {
		updated := e.Manager == updateManager && e.Operation == metav1.ManagedFieldsOperationUpdate
		return isApplied(e, manager) || updated && e.Subresource == ""
	}
	kept := slices.DeleteFunc(slices.Clone(object.GetManagedFields()), isOld)
	object.SetManagedFields(append(kept, seed(metadataManager, kind.GroupVersion().String())))
	if err := c.Patch(ctx, object, lockedMergeFrom(base)); err != nil {
		return fmt.Errorf("splitting the managed fields of %s %s: %w", kind.Kind, name, err)
	}
	return nil
}

// ReleaseMetadata ends a field manager's ownership of labels and annotations, so that another
// manager can own them alone. object is the object as the API server has it, not as a cache has it.
// After a conflict it is read again with live, which reads from the API server.
func ReleaseMetadata(
	ctx context.Context, c client.Client, live client.Reader, object client.Object, manager string,
) error {
	name, read := client.ObjectKeyFromObject(object), false
	err := retry.RetryOnConflict(conflictRetries, func() error {
		if read {
			if err := live.Get(ctx, name, object); err != nil {
				return fmt.Errorf("reading it again: %w", err)
			}
		}
		read = true
		base, err := copyOf(object)
		if err != nil {
			return err
		}
		entries, changed, err := withoutMetadata(object.GetManagedFields(), manager)
		if err != nil || !changed {
			return err
		}
		object.SetManagedFields(entries)
		return c.Patch(ctx, object, lockedMergeFrom(base))
	})
	if err != nil {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		return fmt.Errorf("releasing labels and annotations of %s %s: %w", kind, name, err)
	}
	return nil
}

// withoutMetadata returns entries in which a manager has applied neither labels nor annotations.
func withoutMetadata(
	entries []metav1.ManagedFieldsEntry, manager string,
) (out []metav1.ManagedFieldsEntry, changed bool, err error) {
	for _, entry := range entries {
		if !isApplied(entry, manager) || entry.FieldsV1 == nil {
			out = append(out, entry)
			continue
		}
		var fields map[string]any
		if err := untrusted.Object.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			return nil, false, fmt.Errorf("reading managed fields: %w", err)
		}
		if metadata, ok := fields["f:metadata"].(map[string]any); ok {
			before := len(metadata)
			delete(metadata, "f:labels")
			delete(metadata, "f:annotations")
			changed = changed || len(metadata) != before
			if len(metadata) == 0 {
				delete(fields, "f:metadata")
			}
		}
		raw, err := json.Marshal(fields)
		if err != nil {
			return nil, false, fmt.Errorf("encoding managed fields: %w", err)
		}
		entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
		out = append(out, entry)
	}
	return out, changed, nil
}

// OwnsClusterLabel reports whether a field manager has applied the label of the Cluster.
func OwnsClusterLabel(object client.Object, manager string) (bool, error) {
	for _, entry := range ownedBy(object, manager) {
		var fields struct {
			Metadata struct {
				Labels map[string]any `json:"f:labels"`
			} `json:"f:metadata"`
		}
		if err := untrusted.Object.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			return false, fmt.Errorf("decoding: %w", err)
		}
		if _, ok := fields.Metadata.Labels["f:"+clusterv1.ClusterNameLabel]; ok {
			return true, nil
		}
	}
	return false, nil
}

func seed(manager, apiVersion string) metav1.ManagedFieldsEntry {
	now := metav1.Now()
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: apiVersion,
		Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(seedFields),
	}
}
