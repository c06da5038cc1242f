package engine

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// TestRemediationThatWasAskedFor: an update does not begin on a Machine that is about to be
// replaced, says so, and begins once that is over.
func TestRemediationThatWasAskedFor(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	empty := ""
	w.annotate("a", clusterv1.RemediateMachineAnnotation, &empty)
	s.answers(inplace.Finishes, "")
	w.node("a", to)
	w.until("a", "not started: the machine is marked for remediation:  it has the annotation "+clusterv1.RemediateMachineAnnotation)
	if w.has("a", v1alpha1.UpdateProgressAnnotation) || w.has("a", clusterv1.MachineSkipRemediationAnnotation) {
		t.Errorf("it has begun: %v", w.machine("a").Annotations)
	}
	w.annotate("a", clusterv1.RemediateMachineAnnotation, nil)
	w.until("a", "updated in place")
}

// TestUpdateMayRepair: an update begins on an unhealthy Machine while its MachineSet waits for the
// update. It does not begin while another remediation is decided or asked for.
func TestUpdateMayRepair(t *testing.T) {
	t.Parallel()
	const waits = "Waiting because the Machine is being updated in place (at most 20m0s)"
	unhealthy := metav1.Condition{
		Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse,
		Reason: "Unhealthy",
	}
	owner := func(reason, message string) metav1.Condition {
		return metav1.Condition{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
			Reason: reason, Message: message,
		}
	}
	outside := unhealthy
	outside.Type = clusterv1.MachineExternallyRemediatedCondition
	held := owner(clusterv1.MachineSetMachineRemediationDeferredReason, waits)
	for name, tt := range map[string]struct {
		conditions []metav1.Condition
		asked      bool
		want       bool
	}{
		"its MachineSet waits for the update":       {conditions: []metav1.Condition{held}, want: true},
		"a person asks for the remediation, too":    {conditions: []metav1.Condition{held}, asked: true},
		"an external controller remediates it, too": {conditions: []metav1.Condition{held, outside}},
		"it was just found unhealthy": {conditions: []metav1.Condition{
			owner(clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, "Waiting for remediation"),
		}},
		"its turn for remediation comes": {conditions: []metav1.Condition{
			owner(clusterv1.MachineSetMachineRemediationDeferredReason, "too many are in progress"),
		}},
		"its old MachineSet waits": {conditions: []metav1.Condition{
			owner(clusterv1.MachineSetMachineCannotBeRemediatedReason, "pending removal due to rollout"),
		}},
		"it is about to be deleted": {conditions: []metav1.Condition{
			owner(clusterv1.MachineSetMachineRemediationMachineDeletingReason, waits),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := moving(t, external(nil))
			m := w.machine("a")
			m.Status.Conditions = append([]metav1.Condition{unhealthy}, tt.conditions...)
			w.must(w.client.Status().Update(t.Context(), m))
			if tt.asked {
				empty := ""
				w.annotate("a", clusterv1.RemediateMachineAnnotation, &empty)
			}
			s.answers(inplace.InProgress, "")
			if _, err := w.update("a"); err != nil {
				t.Fatal(err)
			}
			if got := w.has("a", v1alpha1.UpdateProgressAnnotation); got != tt.want {
				t.Errorf("the update has begun: %t, want %t", got, tt.want)
			}
			if w.has("a", clusterv1.MachineSkipRemediationAnnotation) {
				t.Error("the MachineHealthCheck cannot take back its verdict")
			}
		})
	}
}
