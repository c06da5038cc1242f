package judge

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/pkg/version"
)

// phaseFailed is the phase of an update that has failed finally.
const phaseFailed = "Failed"

// phaseOf is the phase of the update that is recorded on a machine; empty if none is.
func phaseOf(m *clusterv1.Machine) string {
	type progress struct {
		Phase string `json:"phase"`
	}
	if text, ok := m.Annotations[v1alpha1.UpdateProgressAnnotation]; ok {
		var p progress
		_ = json.Unmarshal([]byte(text), &p) // What cannot be read has no phase.
		return p.Phase
	}
	if text, ok := m.Annotations[v1alpha1.InPlaceUpgradeAnnotation]; ok {
		var upgrade struct {
			Progress progress `json:"progress"`
		}
		_ = json.Unmarshal([]byte(text), &upgrade)
		return upgrade.Progress.Phase
	}
	return ""
}

// runs reports whether a version is at least another one.
func runs(have, want string) bool {
	h, errHave := version.Parse(have)
	v, errWant := version.Parse(want)
	if errHave != nil || errWant != nil {
		return false
	}
	return h.Equal(v) || version.Compare(v, h) == version.Less
}

func isReady(m history.Fact) bool {
	c := m.Condition(clusterv1.MachineReadyCondition)
	return c != nil && c.Status == metav1.ConditionTrue
}

// moves is what moves a machine. Where objects leave that open it has more than one answer.
func (w *world) moves(m history.Fact) []string {
	machine, ok := m.Object.(*clusterv1.Machine)
	switch {
	case !ok:
		return []string{""}
	case m.Deleting:
		return []string{moveRemoval}
	case !machine.Status.NodeRef.IsDefined():
		return []string{moveCreation}
	case isRefused(m):
		return []string{moveUpdate, ""}
	case isUpdated(machine):
		return []string{moveUpdate}
	case isFailed(m):
		return []string{""}
	}
	moves := []string{""}
	if !w.ready[m.UID] {
		moves = append(moves, moveCreation)
	}
	c := m.Condition(clusterv1.MachineUpToDateCondition)
	_, asked := machine.Annotations[v1alpha1.InPlaceUpgradeAnnotation]
	if asked || c != nil && c.Reason == clusterv1.MachineUpToDateUpdatingReason {
		moves = append(moves, moveUpdate)
	}
	return moves
}

// isUpdated reports whether a machine is updated in place: Cluster API has marked it, or an
// annotation tells of an update that has not failed finally.
func isUpdated(m *clusterv1.Machine) bool {
	if phase := phaseOf(m); phase != "" {
		return phase != phaseFailed
	}
	_, marked := m.Annotations[clusterv1.UpdateInProgressAnnotation]
	hooks := strings.Split(m.Annotations[runtimev1.PendingHooksAnnotation], ",")
	status := m.Annotations[v1alpha1.DefaultInPlaceUpgradePrefix+v1alpha1.InPlaceUpgradeStatus]
	return marked || slices.Contains(hooks, "UpdateMachine") ||
		status == v1alpha1.InPlaceUpgradeInProgress
}

// isRefused reports whether Cluster API says that its last question to update a machine has failed.
// It asks again: an extension that was killed has refused nothing, but Cluster API does not tell
// the two apart.
func isRefused(m history.Fact) bool {
	c := m.Condition(clusterv1.MachineUpdatingCondition)
	return c != nil && c.Status == metav1.ConditionTrue &&
		c.Reason == clusterv1.MachineInPlaceUpdateFailedReason
}

func isFailed(m history.Fact) bool {
	machine, ok := m.Object.(*clusterv1.Machine)
	return ok && !m.Deleting && phaseOf(machine) == phaseFailed
}
