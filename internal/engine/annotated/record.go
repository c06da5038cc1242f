package annotated

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	core "github.com/windlass-dev/windlass/internal/core/inplace/annotated"
)

// record writes what was decided about a Machine, under the resourceVersion that it was decided on.
// Cluster API writes Machines all the time. If the Machine has changed, but nothing that the
// decision was about, the record is written under the new resourceVersion. An upgrade that begins
// is decided again instead. The error is errStartOver if the decision must be made again.
func (r *machineRun) record(ctx context.Context, p annotationPatch, begins bool) error {
	err := r.patch(ctx, r.machine, p)
	if !apierrors.IsConflict(err) {
		return err
	}
	if begins {
		return errStartOver
	}
	if err := r.refresh(ctx); err != nil {
		return err
	}
	return startOverOnConflict(r.patch(ctx, r.machine, p))
}

// refresh reads the Machine again. The error is errStartOver if something has changed that
// decisions are about.
func (r *machineRun) refresh(ctx context.Context) error {
	fresh := &clusterv1.Machine{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(r.machine), fresh); err != nil {
		return fmt.Errorf("reading Machine %s again: %w", client.ObjectKeyFromObject(r.machine), err)
	}
	if !r.keys.Same(fresh.Annotations, r.machine.Annotations) || fresh.UID != r.machine.UID || fresh.DeletionTimestamp.IsZero() != r.machine.DeletionTimestamp.IsZero() {
		return errStartOver
	}
	r.machine = fresh
	return nil
}

func startOverOnConflict(err error) error {
	if apierrors.IsConflict(err) {
		return errStartOver
	}
	return err
}

// patch writes annotations of an object that is still what was read, and leaves it as the API
// server returned it.
func (e *Engine) patch(ctx context.Context, object client.Object, p annotationPatch) error {
	return e.patchFields(ctx, object, map[string]any{"metadata": map[string]any{"annotations": p, "resourceVersion": object.GetResourceVersion()}})
}

// patchFields is a merge patch; it says which resource version it is about.
func (e *Engine) patchFields(ctx context.Context, object client.Object, fields map[string]any) error {
	data, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	if err := e.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, data)); err != nil {
		return fmt.Errorf("writing %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return nil
}

// applyCondition shows a state in the condition of an object, and removes it for the zero State.
// Nothing is written where conditions say so already. It is server-side apply, so the other
// conditions stay. It is made under the object's resourceVersion, so that a process that was frozen
// shows nothing that has been over since; a conflict is an error.
func (e *Engine) applyCondition(ctx context.Context, gvk schema.GroupVersionKind, object client.Object, conditions *[]metav1.Condition, s core.State) error {
	old := meta.FindStatusCondition(*conditions, v1alpha1.InPlaceUpgradeCondition)
	if s == (core.State{}) {
		if old != nil {
			if err := e.applyConditions(ctx, gvk, object, nil); err != nil {
				return err
			}
		}
		e.shown.remove(gvk.GroupKind(), client.ObjectKeyFromObject(object))
		*conditions = slices.DeleteFunc(slices.Clone(*conditions), func(c metav1.Condition) bool { return c.Type == v1alpha1.InPlaceUpgradeCondition })
		return nil
	}
	e.shown.add(gvk.GroupKind(), client.ObjectKeyFromObject(object))
	c := metav1.Condition{
		Type: v1alpha1.InPlaceUpgradeCondition, Status: metav1.ConditionFalse, Reason: string(s.Reason), Message: cut(s.Message), LastTransitionTime: metav1.NewTime(e.now()),
	}
	if s.Going {
		c.Status = metav1.ConditionTrue
	}
	if old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	if old != nil && old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
		return nil
	}
	if err := e.applyConditions(ctx, gvk, object, []metav1.Condition{c}); err != nil {
		return err
	}
	after := slices.Clone(*conditions)
	meta.SetStatusCondition(&after, c)
	*conditions = after
	return nil
}

func (e *Engine) applyConditions(ctx context.Context, gvk schema.GroupVersionKind, object client.Object, conditions []metav1.Condition) error {
	applied := unstructuredOf(gvk)
	applied.SetNamespace(object.GetNamespace())
	applied.SetName(object.GetName())
	applied.SetResourceVersion(object.GetResourceVersion())
	if len(conditions) > 0 {
		var list []any
		if err := convert(conditions, &list); err != nil {
			return err
		}
		applied.Object["status"] = map[string]any{"conditions": list}
	}
	err := e.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), FieldOwner, client.ForceOwnership)
	if err == nil {
		// Nothing but the condition has changed, so what is decided next is decided on this
		// version.
		object.SetResourceVersion(applied.GetResourceVersion())
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("applying the condition %s of %s %s/%s: %w", v1alpha1.InPlaceUpgradeCondition, gvk.Kind, object.GetNamespace(), object.GetName(), err)
	}
	return nil
}

// convert puts a value into another type by way of JSON.
func convert(from, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encoding a condition: %w", err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("decoding a condition: %w", err)
	}
	return nil
}
