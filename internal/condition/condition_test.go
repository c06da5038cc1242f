//nolint:staticcheck // SA1019: the older form of conditions is under test, too
package condition_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	"github.com/windlass-dev/windlass/internal/condition"
)

func TestSet(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0))
	of := func(kind, status, reason string) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: "why", ObservedGeneration: 2, LastTransitionTime: at,
		}
	}
	other := of("Waiting", "True", "Other")
	wrong := []metav1.Condition{other, of("Ready", "False", "InvalidSpec"), of("Stalled", "True", "InvalidSpec")}
	for name, test := range map[string]struct {
		before  []metav1.Condition
		ready   metav1.Condition
		invalid bool
		want    []metav1.Condition
	}{
		"good":             {[]metav1.Condition{other}, of("Ready", "True", "Valid"), false, []metav1.Condition{other, of("Ready", "True", "Valid")}},
		"wrong":            {[]metav1.Condition{other}, of("Ready", "False", "InvalidSpec"), true, wrong},
		"repaired":         {wrong, of("Ready", "True", "Valid"), false, []metav1.Condition{other, of("Ready", "True", "Valid")}},
		"unusable for now": {wrong, of("Ready", "False", "Conflict"), false, []metav1.Condition{other, of("Ready", "False", "Conflict")}},
		"wrong as it was":  {wrong, of("Ready", "False", "InvalidSpec"), true, wrong},
		"wrong in a new way": {wrong, of("Ready", "False", "Other"), true,
			[]metav1.Condition{other, of("Ready", "False", "Other"), of("Stalled", "True", "Other")}},
	} {
		t.Run(name, func(t *testing.T) {
			got := append([]metav1.Condition{}, test.before...)
			condition.SetReady(&got, test.ready, test.invalid)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMessagesAreBounded: each way to set a condition bounds its message and keeps its Fix, and a
// second call with the same condition changes nothing.
func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 100<<10) + ". Fix: wait"
	at := metav1.NewTime(time.Unix(1000, 0))
	c := metav1.Condition{Type: "Ready", Status: "False", Reason: "Why", Message: long, LastTransitionTime: at}
	legacyOf := func(status string) *clusterv1.Condition {
		return &clusterv1.Condition{Type: "Ready", Status: corev1.ConditionStatus(status), Reason: "Why", Message: long}
	}
	for name, set := range map[string]func(*clusterv1.Machine){
		"a list":    func(m *clusterv1.Machine) { condition.Set(&m.Status.Conditions, c) },
		"an object": func(m *clusterv1.Machine) { condition.SetOn(m, c) },
		"ready":     func(m *clusterv1.Machine) { condition.SetReady(&m.Status.Conditions, c, true) },
		"legacy":    func(m *clusterv1.Machine) { v1beta1.Set(condition.Legacy(m), legacyOf("False")) },
		"legacy summary": func(m *clusterv1.Machine) {
			if len(m.GetV1Beta1Conditions()) == 0 {
				other := legacyOf("False")
				other.Type = "Other"
				v1beta1.Set(condition.Legacy(m), other)
			}
			v1beta1.SetSummary(condition.Legacy(m), v1beta1.WithConditions("Other"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{}
			set(m)
			var messages []string
			for _, c := range m.Status.Conditions {
				messages = append(messages, c.Message)
			}
			for i := range m.GetV1Beta1Conditions() {
				// An hour ago, so that a new time would show.
				m.GetV1Beta1Conditions()[i].LastTransitionTime = at
				messages = append(messages, m.GetV1Beta1Conditions()[i].Message)
			}
			if len(messages) == 0 {
				t.Fatal("there is no condition")
			}
			for _, message := range messages {
				if len(message) > condition.MaxBytes || !strings.HasPrefix(message, "ééé") || !strings.Contains(message, " Fix: wait") {
					t.Errorf("a message of %d bytes: %s", len(message), message)
				}
			}
			before := m.DeepCopy()
			set(m)
			if diff := cmp.Diff(before, m); diff != "" {
				t.Errorf("the same condition again changes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLegacyLeavesOthers: a long message of another controller stays.
func TestLegacyLeavesOthers(t *testing.T) {
	t.Parallel()
	other := clusterv1.Condition{Type: "Other", Status: "False", Message: strings.Repeat("x", 4*condition.MaxBytes)}
	m := &clusterv1.Machine{}
	m.SetV1Beta1Conditions(clusterv1.Conditions{other})
	v1beta1.MarkTrue(condition.Legacy(m), "Ready")
	if got := v1beta1.Get(m, "Other"); got == nil || got.Message != other.Message || !v1beta1.IsTrue(m, "Ready") {
		t.Errorf("the conditions are %v", m.GetV1Beta1Conditions())
	}
}
