package condition

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/text"
)

// MaxBytes bounds the message of a condition. A longer one is cut, and keeps its Fix; see [text.Fit].
// The CRDs accept v1alpha1.MaxConditionMessageLength, 8,192 characters, from anybody, and Cluster
// API's types more: what this package sets is shorter than either, so that no status is refused.
const MaxBytes = 6 << 10

// Bound returns a condition whose message has at most MaxBytes.
func Bound(c metav1.Condition) metav1.Condition {
	c.Message = text.Fit(c.Message, MaxBytes)
	return c
}

// Set sets a condition in a list, and reports whether that changes the list. The transition time of c
// counts only if the status changes.
func Set(list *[]metav1.Condition, c metav1.Condition) (changed bool) {
	return meta.SetStatusCondition(list, Bound(c))
}

// SetOn sets a condition of an object of Cluster API, at its generation. The transition time of c
// counts only if the status changes; where it is zero it is now.
func SetOn(object conditions.Setter, c metav1.Condition) { conditions.Set(object, Bound(c)) }

// SetReady sets a condition of type Ready. invalid says that it is False until somebody edits the
// object's spec; Stalled then has the same reason and message, and is removed otherwise.
func SetReady(list *[]metav1.Condition, ready metav1.Condition, invalid bool) {
	Set(list, ready)
	if !invalid {
		meta.RemoveStatusCondition(list, v1alpha1.StalledCondition)
		return
	}
	stalled := ready
	stalled.Type, stalled.Status = v1alpha1.StalledCondition, metav1.ConditionTrue
	Set(list, stalled)
}
