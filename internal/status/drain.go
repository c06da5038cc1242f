package status

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// The ways out of a drain that PodDisruptionBudgets hold.
const (
	heldByBudget = "Fix: let the budget allow a disruption: start more of its Pods, " +
		"or lower its minAvailable; or delete the Pod, which asks no budget"
	heldByBudgets = "Fix: keep one PodDisruptionBudget for the Pod: " +
		"the API server evicts no Pod with more than one"
	// heldUnhealthy: fewer Pods are healthy than the budget requires. More of them would not be
	// healthy either if they crash.
	heldUnhealthy = "Fewer Pods of the budget are healthy than it requires. " +
		"Fix: look why they are not healthy (`kubectl get pods`): if they crash, correct or scale down the " +
		"application; or set unhealthyPodEvictionPolicy AlwaysAllow in the budget; " +
		"or delete the Pod, which asks no budget"
	// heldUnreachable: evictions of Pods that are not ready are allowed only while their budget is
	// met, unless it says AlwaysAllow. No kubelet makes them ready again.
	heldUnreachable = "The node is unreachable, so its Pods do not become healthy again, " +
		"and the drain waits for a person. " +
		"Fix: start the node; or set unhealthyPodEvictionPolicy AlwaysAllow in the budget; " +
		"or delete the Pod with --force, which asks no budget"
	endDrain = "; or end the drain: annotate the Machine with " +
		clusterv1.ExcludeNodeDrainingAnnotation + ", or set nodeDrainTimeoutSeconds of its group"
	unsetDrain = ", which is not set: the drain does not end by itself"
)

// endOf says how the drain of a Machine can end, and whether it does by itself.
func endOf(m *clusterv1.Machine) string {
	if timeout := m.Spec.Deletion.NodeDrainTimeoutSeconds; timeout != nil && *timeout > 0 {
		return fmt.Sprintf("%s, which is %ds now: then the drain ends by itself", endDrain, *timeout)
	}
	return endDrain + unsetDrain
}

// drainFix says what a person can do about the drain of a Machine's node, by Cluster API's message
// about it; empty if the message names no PodDisruptionBudget.
func drainFix(m *clusterv1.Machine, message string) string {
	named := strings.Contains(message, "disruption budget")
	switch {
	case strings.Contains(message, "more than one PodDisruptionBudget"):
		return heldByBudgets + endOf(m)
	case !named && !strings.Contains(message, "PodDisruptionBudget"):
		return ""
	case isUnreachable(m):
		return heldUnreachable + endOf(m)
	case isUnmet(message):
		return heldUnhealthy + endOf(m)
	}
	return heldByBudget + endOf(m)
}

// budgetNumbers are those of the API server's message about an eviction that it refuses.
var budgetNumbers = regexp.MustCompile(`needs (\d+) healthy pods and has (\d+) currently`)

// isUnmet reports whether fewer Pods are healthy than a budget requires that a message names.
func isUnmet(message string) bool {
	return slices.ContainsFunc(budgetNumbers.FindAllStringSubmatch(message, -1), func(m []string) bool {
		needs, err := strconv.Atoi(m[1])
		has, too := strconv.Atoi(m[2])
		return err == nil && too == nil && has < needs
	})
}

// isUnreachable reports whether the Machine's node has stopped reporting. A management cluster that
// cannot reach the workload cluster does not know.
func isUnreachable(m *clusterv1.Machine) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineNodeReadyCondition)
	return c != nil && c.Status == metav1.ConditionUnknown &&
		c.Reason == clusterv1.MachineNodeReadyUnknownReason
}

// withFix appends to a message what a person can do.
func withFix(message, fix string) string {
	if message == "" || fix == "" {
		return message
	}
	return message + ". " + fix
}
