package pool

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// drainDelays are what may delay a drain: the text in a Machine's condition Deleting, and what to
// call it.
var drainDelays = [...]struct{ text, name string }{
	{"cannot evict pod as it would violate the pod's disruption budget.", "PodDisruptionBudgets"},
	{"deletionTimestamp set, but still not removed from the Node", "Pods not terminating"},
	{"failed to evict Pod", "Pod eviction errors"},
	{"waiting for completion", "Pods not completed yet"},
}

// StaleDeletions names the Machines that have been in deletion for more than 15 minutes, and
// what probably delays them; empty if there is none.
func StaleDeletions(machines []*clusterv1.Machine, now time.Time) string {
	var names []string
	var delayed [len(drainDelays)]bool
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() || now.Sub(m.DeletionTimestamp.Time) <= staleDeletion {
			continue
		}
		names = append(names, m.Name)
		drain := longDrain(m, now)
		for i, d := range drainDelays {
			delayed[i] = delayed[i] || strings.Contains(drain, d.text)
		}
	}
	if len(names) == 0 {
		return ""
	}
	message := machinesAre(names) + "in deletion since more than 15m"
	var causes []string
	for i, d := range drainDelays {
		if delayed[i] {
			causes = append(causes, d.name)
		}
	}
	if len(causes) > 0 {
		message += ", delay likely due to " + strings.Join(causes, ", ")
	}
	return message
}

// longDrain returns the message about a drain that has been in progress for more than 5 minutes;
// empty for none.
func longDrain(m *clusterv1.Machine, now time.Time) string {
	c := conditions.Get(m, clusterv1.MachineDeletingCondition)
	if c == nil || c.Status != metav1.ConditionTrue ||
		c.Reason != clusterv1.MachineDeletingDrainingNodeReason {
		return ""
	}
	d := m.Status.Deletion
	if d == nil || d.NodeDrainStartTime.IsZero() ||
		now.Sub(d.NodeDrainStartTime.Time) <= staleDrain {
		return ""
	}
	return c.Message
}

// machinesAre begins a sentence about Machines: "Machine a is ", "Machines a, b are ". It names at
// most three.
func machinesAre(names []string) string {
	const most = 3
	names = slices.Sorted(slices.Values(names))
	if len(names) == 1 {
		return fmt.Sprintf("Machine %s is ", names[0])
	}
	if more := len(names) - most; more > 0 {
		names = append(names[:most:most], fmt.Sprintf("... (%d more)", more))
	}
	return fmt.Sprintf("Machines %s are ", strings.Join(names, ", "))
}
