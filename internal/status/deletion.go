package status

import (
	"cmp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Deletion is a Machine that is being deleted, and what its deletion waits for, such as a drain.
type Deletion struct {
	Machine string `json:"machine"`
	Group   string `json:"group"`
	// Reason and Message are those of Cluster API's condition Deleting.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Since is when what the deletion waits for began, as far as that is known: a drain, the wait for
	// volumes, or else the deletion.
	Since time.Time `json:"since,omitzero"`
	// Fix says what a person can do about a drain that a PodDisruptionBudget holds, or about a hook; else
	// empty.
	Fix string `json:"fix,omitempty"`
}

// Text is the message, and what to do, in one line.
func (d Deletion) Text() string {
	return withFix(strings.Join(strings.Fields(d.Message), " "), d.Fix)
}

// appendDeletion adds a Machine that is being deleted, if its deletion waits for something.
func appendDeletion(list []Deletion, m *clusterv1.Machine, group string) []Deletion {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineDeletingCondition)
	if c == nil || c.Status != metav1.ConditionTrue || c.Message == "" || m.DeletionTimestamp.IsZero() {
		return list
	}
	d := Deletion{
		Machine: m.Name, Group: group, Reason: c.Reason, Message: c.Message,
		Since: m.DeletionTimestamp.UTC(),
	}
	began := cmp.Or(m.Status.Deletion, &clusterv1.MachineDeletionStatus{})
	switch c.Reason {
	case clusterv1.MachineDeletingDrainingNodeReason:
		d.Fix = drainFix(m, c.Message)
		if t := began.NodeDrainStartTime; !t.IsZero() {
			d.Since = t.UTC()
		}
	case clusterv1.MachineDeletingWaitingForVolumeDetachReason:
		if t := began.WaitForNodeVolumeDetachStartTime; !t.IsZero() {
			d.Since = t.UTC()
		}
	case clusterv1.MachineDeletingWaitingForPreDrainHookReason,
		clusterv1.MachineDeletingWaitingForPreTerminateHookReason:
		d.Fix = heldByHooks
	}
	return append(list, d)
}

// heldByHooks is the way out of a deletion that waits for hooks.
const heldByHooks = "Fix: ask the owner of the hook, which removes its annotation from the Machine when it is done; " +
	"if nobody owns it any more, remove the annotation"
