package engine

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/condition"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// applyCondition shows a state in the condition of an object, and removes it for the zero State.
// Nothing is written where conditions say so already. The error is a *staleError if what was
// decided on has changed, so that a process that was frozen shows nothing that has been over since.
func (e *Engine) applyCondition(ctx context.Context, gvk schema.GroupVersionKind, object client.Object, conditions *[]metav1.Condition, s request.State) error {
	old := meta.FindStatusCondition(*conditions, v1alpha1.InPlaceUpgradeCondition)
	if s == (request.State{}) {
		if old != nil {
			if err := e.RemoveCondition(ctx, object, upgradeFieldOwner, v1alpha1.InPlaceUpgradeCondition); err != nil {
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
	if err := e.ApplyConditions(ctx, object, upgradeFieldOwner, c); err != nil {
		return err
	}
	after := slices.Clone(*conditions)
	condition.Set(&after, c)
	*conditions = after
	return nil
}
