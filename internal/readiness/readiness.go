package readiness

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// Set sets a condition of type Ready. invalid says that it is False until somebody edits the
// object's spec; Stalled then has the same reason and message, and is removed otherwise.
func Set(conditions *[]metav1.Condition, ready metav1.Condition, invalid bool) {
	meta.SetStatusCondition(conditions, ready)
	if !invalid {
		meta.RemoveStatusCondition(conditions, v1alpha1.StalledCondition)
		return
	}
	stalled := ready
	stalled.Type, stalled.Status = v1alpha1.StalledCondition, metav1.ConditionTrue
	meta.SetStatusCondition(conditions, stalled)
}
