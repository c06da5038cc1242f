package readiness_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/internal/readiness"
)

func TestSet(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0))
	condition := func(kind, status, reason string) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: "why", ObservedGeneration: 2, LastTransitionTime: at,
		}
	}
	other := condition("Waiting", "True", "Other")
	wrong := []metav1.Condition{other, condition("Ready", "False", "InvalidSpec"), condition("Stalled", "True", "InvalidSpec")}
	for name, test := range map[string]struct {
		before  []metav1.Condition
		ready   metav1.Condition
		invalid bool
		want    []metav1.Condition
	}{
		"good":             {[]metav1.Condition{other}, condition("Ready", "True", "Valid"), false, []metav1.Condition{other, condition("Ready", "True", "Valid")}},
		"wrong":            {[]metav1.Condition{other}, condition("Ready", "False", "InvalidSpec"), true, wrong},
		"repaired":         {wrong, condition("Ready", "True", "Valid"), false, []metav1.Condition{other, condition("Ready", "True", "Valid")}},
		"unusable for now": {wrong, condition("Ready", "False", "Conflict"), false, []metav1.Condition{other, condition("Ready", "False", "Conflict")}},
		"wrong as it was":  {wrong, condition("Ready", "False", "InvalidSpec"), true, wrong},
		"wrong in a new way": {wrong, condition("Ready", "False", "Other"), true,
			[]metav1.Condition{other, condition("Ready", "False", "Other"), condition("Stalled", "True", "Other")}},
	} {
		t.Run(name, func(t *testing.T) {
			got := append([]metav1.Condition{}, test.before...)
			readiness.Set(&got, test.ready, test.invalid)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}
