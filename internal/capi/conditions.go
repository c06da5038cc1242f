package capi

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// OwnerMovedOn reports whether Cluster API finds that a Machine's owner desires something else than
// the Machine's spec has.
func OwnerMovedOn(m *clusterv1.Machine) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpToDateCondition)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == clusterv1.MachineNotUpToDateReason
}

// Conditions returns status.conditions of an object of any kind. It omits what is not a condition, and
// of a condition the fields that have another type.
func Conditions(object *unstructured.Unstructured) []metav1.Condition {
	return conditionsAt(object, "status", "conditions")
}

// FindCondition returns a condition of an object of any kind, or nil. It looks where the contracts of
// Cluster API keep conditions: that of v1beta2 first, and then that of v1beta1.
func FindCondition(object *unstructured.Unstructured, kind string) *metav1.Condition {
	if c := meta.FindStatusCondition(Conditions(object), kind); c != nil {
		return c
	}
	return meta.FindStatusCondition(conditionsAt(object, "status", "v1beta2", "conditions"), kind)
}

func conditionsAt(object *unstructured.Unstructured, path ...string) []metav1.Condition {
	list, _, err := unstructured.NestedSlice(object.Object, path...)
	if err != nil {
		return nil
	}
	var conditions []metav1.Condition
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(name string) string {
			value, _, _ := unstructured.NestedString(fields, name) // a field of another type is omitted
			return value
		}
		c := metav1.Condition{
			Type: text("type"), Status: metav1.ConditionStatus(text("status")),
			Reason: text("reason"), Message: text("message"),
		}
		c.ObservedGeneration, _, _ = unstructured.NestedInt64(fields, "observedGeneration")
		if since, err := time.Parse(time.RFC3339, text("lastTransitionTime")); err == nil {
			c.LastTransitionTime = metav1.NewTime(since)
		}
		conditions = append(conditions, c)
	}
	return conditions
}
