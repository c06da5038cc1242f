package status

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// TestHeldDrains checks that Pod, budget and the way out are shown during a drain: of a deletion,
// of an update by the hooks, and of one that an annotation asks for.
func TestHeldDrains(t *testing.T) {
	const (
		pod     = "Drain not completed yet:\n* Pod default/web: "
		refused = pod + "cannot evict pod as it would violate the pod's disruption budget. " +
			"The disruption budget web needs 1 healthy pods and has 1 currently"
		unmet = pod + "cannot evict pod as it would violate the pod's disruption budget. " +
			"The disruption budget web needs 1 healthy pods and has 0 currently"
		two = pod + "failed to evict Pod, This pod has more than one PodDisruptionBudget, " +
			"which the eviction subresource does not support.\n* Pod default/web: PodDisruptionBudget a, b"
		named   = pod + "failed to evict Pod, no\n* Pod default/web: PodDisruptionBudget a"
		leaving = pod + "deletionTimestamp set, but still not removed from the Node"
	)
	node := func(status metav1.ConditionStatus, reason string) func(*clusterv1.Machine) {
		return condition(clusterv1.MachineNodeReadyCondition, status, reason, "")
	}
	ready := node("True", clusterv1.MachineNodeReadyReason)
	for _, test := range []struct {
		name, message string
		node          func(*clusterv1.Machine)
		want          string
	}{
		{"a budget", refused, ready, heldByBudget + endDrain + unsetDrain},
		{"a budget whose Pods are not healthy", unmet, ready, heldUnhealthy + endDrain + unsetDrain},
		{"unhealthy and unreachable", unmet, node("Unknown", clusterv1.MachineNodeReadyUnknownReason), heldUnreachable + endDrain + unsetDrain},
		{"a budget without its numbers", named, ready, heldByBudget + endDrain + unsetDrain},
		{"the kubelet is broken", refused, node("False", clusterv1.MachineNodeNotReadyReason), heldByBudget + endDrain + unsetDrain},
		{"unreachable", refused, node("Unknown", clusterv1.MachineNodeReadyUnknownReason), heldUnreachable + endDrain + unsetDrain},
		{"the workload cluster is unreachable", refused,
			node("Unknown", clusterv1.MachineNodeConnectionDownReason), heldByBudget + endDrain + unsetDrain},
		{"two budgets", two, node("Unknown", clusterv1.MachineNodeReadyUnknownReason), heldByBudgets + endDrain + unsetDrain},
		{"it goes on", leaving, node("Unknown", clusterv1.MachineNodeReadyUnknownReason), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			draining := progress(func(p *inplace.Progress) { p.Phase = inplace.Draining })
			deletion := condition(clusterv1.MachineDeletingCondition, "True",
				clusterv1.MachineDeletingDrainingNodeReason, test.message)
			wait, ok := inplace.StillDraining(
				inplace.Facts{Progress: &draining}, test.message).Action.(inplace.Wait)
			if !ok {
				t.Fatal("a drain that goes on does not wait")
			}
			hook := condition("Updating", "True", "InPlaceUpdating", wait.Message)
			r := Compute(facts(
				machine("deleted", test.node, deleting, deletion),
				machine("updated", test.node, handed, hook, withAnnotation(t, v1alpha1.UpdateProgressAnnotation, draining)),
				machine("upgraded", test.node, mark("to", patch), told("True", "Draining", test.message), upgrading(t, patch, inplace.Draining)),
			), start)
			if len(r.Deletions) != 1 || len(r.Updates) != 1 || len(r.InPlace.Machines) != 1 {
				t.Fatalf("%+v, %+v, %+v, want one of each", r.Deletions, r.Updates, r.InPlace.Machines)
			}
			for what, got := range map[string]string{
				"deletion": r.Deletions[0].Text(), "update": r.Updates[0].Text(), "upgrade": r.InPlace.Machines[0].Text(),
			} {
				got = strings.Join(strings.Fields(got), " ")
				want := strings.Join(strings.Fields(test.message), " ")
				if test.want != "" {
					want += ". " + test.want
				}
				if got != want {
					t.Errorf("%s: %q, want %q", what, got, want)
				}
			}
		})
	}
}

// TestBrokenDeletion: other reasons of a deletion have no drain.
func TestBrokenDeletion(t *testing.T) {
	volumes := condition(clusterv1.MachineDeletingCondition, "True",
		clusterv1.MachineDeletingWaitingForVolumeDetachReason, "Waiting for a PodDisruptionBudget")
	r := Compute(facts(machine("m", deleting, volumes)), start)
	if len(r.Deletions) != 1 || r.Deletions[0].Fix != "" {
		t.Errorf("%+v, want one without a fix", r.Deletions)
	}
}
