package pool

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/record"
)

// progressOf returns the record of a Machine's update. The engine of updates in Windlass writes it
// when the update begins. Cluster API's condition Updating is True from the move of the Machine on,
// also while the Machine waits for its turn. A record that cannot be read has no phase.
func progressOf(m *clusterv1.Machine) record.Progress {
	p, err := record.ProgressOf(m.Annotations)
	if err != nil || p == nil {
		return record.Progress{}
	}
	return *p
}

// HasFailedUpdate reports whether the update in place of a Machine failed finally. The engine of
// updates in Windlass records that. Cluster API's reason is the same after any error of a call,
// also if the next call continues the update.
func HasFailedUpdate(m *clusterv1.Machine) bool {
	if !IsUpdating(m) {
		return false
	}
	switch progressOf(m).Phase {
	case record.Draining, record.Updating, record.BackingOff, record.Verifying, record.Soaking:
		return false
	case record.Failed:
		return true
	}
	return conditions.GetReason(m, clusterv1.MachineUpdatingCondition) ==
		clusterv1.MachineInPlaceUpdateFailedReason
}

// hasBegunUpdate reports whether the update in place of a Machine has begun, and has not ended
// well.
func (f SetFacts) hasBegunUpdate(m *clusterv1.Machine) bool {
	_, recorded := m.Annotations[v1alpha1.UpdateProgressAnnotation]
	foreign := !f.Decided && conditions.IsTrue(m, clusterv1.MachineUpdatingCondition)
	return IsUpdating(m) && (recorded || foreign || HasFailedUpdate(m))
}

// isRefused reports whether an update has not begun, and does not before a person acts: the Machine
// is paused, or the engine of updates shows in a condition why it refuses.
func isRefused(m *clusterv1.Machine) bool {
	if _, begun := m.Annotations[v1alpha1.UpdateProgressAnnotation]; begun {
		return false
	}
	return annotations.HasPaused(m) || conditions.IsTrue(m, v1alpha1.UpdateBlockedCondition)
}

// changingSince is since when a new Machine is being created or updated; zero if its update has not
// begun, and while it soaks. For one that has become unavailable after its creation or update, it
// is since then. A retry of the update, or the end of a pause, begins it anew.
func changingSince(m *clusterv1.Machine) time.Time {
	if IsUpdating(m) {
		return updateBegan(m)
	}
	// The condition Available is False from the move on, and can be behind the end of the update.
	began := later(m.CreationTimestamp.Time, updateEnded(m))
	since := conditions.GetLastTransitionTime(m, clusterv1.MachineAvailableCondition)
	if since != nil {
		began = later(began, since.Time)
	}
	return afterPause(m, began)
}

// updateBegan is since when the update of a Machine has a deadline; zero if it has none.
func updateBegan(m *clusterv1.Machine) time.Time {
	p := progressOf(m)
	switch p.Phase {
	case record.Soaking:
		return time.Time{} // All updaters are done. The engine bounds the rest.
	case record.Draining, record.Updating, record.BackingOff, record.Verifying, record.Failed:
	}
	began := p.Began
	if p.Retried != nil {
		began = later(began, *p.Retried)
	}
	return afterPause(m, began)
}

// afterPause is since when a change counts: a pause of the Cluster, or of the Machine, that ended
// later begins it anew. Zero is none, also while the Machine is known to be paused without an
// annotation of its own: the pause of the Cluster may have ended just now.
func afterPause(m *clusterv1.Machine, since time.Time) time.Time {
	paused := conditions.Get(m, clusterv1.PausedCondition)
	switch {
	case since.IsZero() || paused == nil:
		return since
	case paused.Status == metav1.ConditionFalse:
		return later(since, paused.LastTransitionTime.Time)
	case paused.Status == metav1.ConditionTrue && !annotations.HasPaused(m):
		return time.Time{}
	}
	return since
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// updateEnded is when the last update in place of a Machine ended; zero if it has no record of
// that.
func updateEnded(m *clusterv1.Machine) time.Time {
	last, err := record.SummaryOf(m.Annotations)
	if err != nil || last == nil {
		return time.Time{}
	}
	return last.Ended
}

// updatingSince is changingSince for a Machine that another engine than that of Windlass updates,
// which leaves no record.
func updatingSince(m *clusterv1.Machine) time.Time {
	since := conditions.GetLastTransitionTime(m, clusterv1.MachineUpdatingCondition)
	if since == nil || !conditions.IsTrue(m, clusterv1.MachineUpdatingCondition) {
		return time.Time{}
	}
	return afterPause(m, since.Time)
}

// Decided reports whether the engine of updates in Windlass has decided about updates of a group,
// by its MachineSets. Another engine leaves no record of an update.
func Decided(group []*clusterv1.MachineSet) bool {
	return slices.ContainsFunc(group, func(set *clusterv1.MachineSet) bool {
		return set.Annotations[v1alpha1.UpdateDecisionsAnnotation] != ""
	})
}
