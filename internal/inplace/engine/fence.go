package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/condition"
	"github.com/windlass-dev/windlass/internal/record"
)

const (
	// maxConflicts bounds how often one record is tried under a newer version.
	maxConflicts = 5
	// freshFor is how long an object counts as unchanged after it was read or written.
	freshFor = 3 * time.Second
	// effectWithin is how long after that an effect must have ended. Another process leads 10 s after
	// this one was frozen at the earliest, if the lease lasts for 12 s and was renewed every 2 s until
	// then. It can lead earlier where renewals failed before, or flags make the lease shorter.
	effectWithin = 9 * time.Second
)

// staleError reports that an object is no longer what was decided on. Nothing was written.
type staleError struct{ object string }

// Error names the object.
func (e *staleError) Error() string {
	return e.object + " was changed meanwhile; it is read and decided on again"
}

// isStale reports whether an error is a *staleError.
func isStale(err error) bool {
	_, ok := errors.AsType[*staleError](err)
	return ok
}

// fence reads and writes objects. Live reads from the API server.
type fence struct {
	Client client.Client
	Live   client.Reader
}

// basis is all of an object that decisions depend on: everything but status, and of a Machine's
// status its node, whether its owner moved on, and whether it is being remediated.
type basis struct {
	UID                 types.UID
	Generation          int64
	Deleting            bool
	Labels, Annotations map[string]string
	Owners              []metav1.OwnerReference
	Node, Remediation   string
	OwnerMovedOn        bool
}

func basisOf(object client.Object) basis {
	b := basis{
		UID: object.GetUID(), Generation: object.GetGeneration(), Deleting: !object.GetDeletionTimestamp().IsZero(),
		Labels: object.GetLabels(), Annotations: object.GetAnnotations(), Owners: object.GetOwnerReferences(),
	}
	if m, ok := object.(*clusterv1.Machine); ok {
		b.Node, b.OwnerMovedOn, b.Remediation = m.Status.NodeRef.Name, capi.OwnerMovedOn(m), RemediationHeld(m)
	}
	return b
}

// Refresh reads an object again, and gives it the new resourceVersion. It returns a *staleError if
// something changed that decisions depend on.
func (f fence) Refresh(ctx context.Context, object client.Object) error {
	key := client.ObjectKeyFromObject(object)
	fresh, err := copyOf(object)
	if err != nil {
		return err
	}
	switch err := f.Live.Get(ctx, key, fresh); {
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

// Retry calls write, which writes under the object's resourceVersion, until it meets no conflict.
// It returns a *staleError if something changed that decisions depend on.
func (f fence) Retry(ctx context.Context, object client.Object, write func() error) error {
	for range maxConflicts {
		err := write()
		if !isStale(err) {
			return err
		}
		if err := f.Refresh(ctx, object); err != nil {
			return err
		}
	}
	return &staleError{object: client.ObjectKeyFromObject(object).String()}
}

// Annotate writes annotations under the object's resourceVersion, and removes those that are nil. It
// leaves the object as the API server returned it. It returns a *staleError on a conflict, and an
// *record.UnstoredError if the API server stored something else.
func (f fence) Annotate(ctx context.Context, object client.Object, annotations map[string]*string) error {
	if err := f.patch(ctx, object, map[string]any{"annotations": annotations}, nil); err != nil {
		return err
	}
	if err := record.CheckStored(object.GetAnnotations(), annotations); err != nil {
		return fmt.Errorf("writing %s: %w", client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// PatchSpec is Annotate for fields of the spec.
func (f fence) PatchSpec(ctx context.Context, object client.Object, spec map[string]any) error {
	return f.patch(ctx, object, map[string]any{}, spec)
}

// patch adds the object's resourceVersion to the metadata.
func (f fence) patch(ctx context.Context, object client.Object, metadata, spec map[string]any) error {
	metadata["resourceVersion"] = object.GetResourceVersion()
	fields := map[string]any{"metadata": metadata}
	if spec != nil {
		fields["spec"] = spec
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	written, err := copyOf(object)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(object)
	if err := f.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, data)); err != nil {
		return staleOnConflict(key, fmt.Errorf("writing %s: %w", key, err))
	}
	reflect.ValueOf(object).Elem().Set(reflect.ValueOf(written).Elem())
	return nil
}

// ApplyConditions sets a field owner's conditions under the object's resourceVersion, by server-side
// apply: conditions of others stay. No conditions removes the field owner's. It returns a
// *staleError on a conflict. An object that does not exist is no error.
func (f fence) ApplyConditions(
	ctx context.Context, gvk schema.GroupVersionKind, object client.Object, conditions []metav1.Condition, owner client.FieldOwner,
) error {
	applied := &unstructured.Unstructured{Object: map[string]any{}}
	applied.SetGroupVersionKind(gvk)
	applied.SetNamespace(object.GetNamespace())
	applied.SetName(object.GetName())
	applied.SetResourceVersion(object.GetResourceVersion())
	if len(conditions) > 0 {
		bounded := make([]metav1.Condition, 0, len(conditions))
		for _, c := range conditions {
			bounded = append(bounded, condition.Bound(c))
		}
		data, err := json.Marshal(bounded)
		if err != nil {
			return fmt.Errorf("encoding a condition: %w", err)
		}
		var list []any
		if err := json.Unmarshal(data, &list); err != nil {
			return fmt.Errorf("decoding a condition: %w", err)
		}
		applied.Object["status"] = map[string]any{"conditions": list}
	}
	err := f.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), owner, client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		key := client.ObjectKeyFromObject(object)
		return staleOnConflict(key, fmt.Errorf("applying the conditions of %s on %s %s: %w", owner, gvk.Kind, key, err))
	}
	if err == nil {
		// Only conditions changed, so what is decided next is decided on this version.
		object.SetResourceVersion(applied.GetResourceVersion())
	}
	return nil
}

// RemoveCondition removes a condition whose words a field owner has written, under the object's resourceVersion,
// also if another one has written it before. It returns a *staleError on a conflict. An object that does not
// exist is no error.
func (f fence) RemoveCondition(
	ctx context.Context, object client.Object, owner client.FieldOwner, kind string,
) error {
	gvk, err := f.Client.GroupVersionKindFor(object)
	if err != nil {
		return fmt.Errorf("finding the kind of %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	key := client.ObjectKeyFromObject(object)
	fresh := &unstructured.Unstructured{}
	fresh.SetGroupVersionKind(gvk)
	if err := f.Live.Get(ctx, key, fresh); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading %s %s: %w", gvk.Kind, key, err)
	}
	if !ownsWords(fresh.GetManagedFields(), string(owner), kind) {
		return nil
	}
	list, _, err := unstructured.NestedSlice(fresh.Object, "status", "conditions")
	if err != nil {
		return fmt.Errorf("reading the conditions of %s %s: %w", gvk.Kind, key, err)
	}
	left := slices.DeleteFunc(list, func(item any) bool {
		c, ok := item.(map[string]any)
		return ok && c["type"] == kind
	})
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": object.GetResourceVersion()},
		"status":   map[string]any{"conditions": left},
	})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	err = f.Client.Status().Patch(ctx, fresh, client.RawPatch(types.MergePatchType, data), owner)
	if client.IgnoreNotFound(err) != nil {
		return staleOnConflict(key, fmt.Errorf("removing the condition %s of %s %s: %w", kind, gvk.Kind, key, err))
	}
	if err == nil {
		object.SetResourceVersion(fresh.GetResourceVersion())
	}
	return nil
}

// ownsWords reports whether a field owner was the last to write the message of a condition. That is not known
// without managed fields.
func ownsWords(fields []metav1.ManagedFieldsEntry, owner, kind string) bool {
	key := `k:{"type":"` + kind + `"}`
	for _, entry := range fields {
		if entry.Manager != owner || entry.FieldsV1 == nil {
			continue
		}
		var owned struct {
			Status struct {
				Conditions map[string]map[string]any `json:"f:conditions"`
			} `json:"f:status"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned) != nil {
			continue // Atomic lists have no keys.
		}
		if _, words := owned.Status.Conditions[key]["f:message"]; words {
			return true
		}
	}
	return len(fields) == 0
}

func staleOnConflict(key types.NamespacedName, err error) error {
	if apierrors.IsConflict(err) {
		return &staleError{object: key.String()}
	}
	return err
}

func copyOf(object client.Object) (client.Object, error) {
	copied, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("a copy of %T is no object", object)
	}
	return copied, nil
}

// confirmed is when an object was last known to be what was decided on.
type confirmed struct {
	at  time.Time
	now func() time.Time
}

// confirmedSince returns a confirmed for an object that was unchanged at a time of the clock now.
func confirmedSince(at time.Time, now func() time.Time) confirmed { return confirmed{at: at, now: now} }

// Renew notes that the object was unchanged at a time: the one before a read, or before a write that
// succeeded.
func (c *confirmed) Renew(at time.Time) { c.at = at }

// Bound ends a context before another process can lead that finds the object as it was confirmed. An
// effect under it that is frozen fails when it continues. An updater's answer can take longer than
// that, so its calls are not bounded: the operation's id makes a repeated one harmless.
func (c *confirmed) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, effectWithin-c.now().Sub(c.at))
}

// Confirm must be called right before an effect: a process that was frozen since it decided may have
// a successor that has ended the work. It reads the object again unless that was read or written
// just before.
func (f fence) Confirm(ctx context.Context, object client.Object, c *confirmed) error {
	now := c.now()
	if age := now.Sub(c.at); age >= 0 && age < freshFor {
		return nil
	}
	if err := f.Refresh(ctx, object); err != nil {
		return err
	}
	c.at = now
	return nil
}
