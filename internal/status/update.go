package status

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/core/inplace"
	"github.com/windlass-dev/windlass/pkg/version"
)

// computeState says where a Machine's update is. What Windlass recorded counts before what Cluster API says, because
// Cluster API learns of it later.
func computeState(m *clusterv1.Machine, rec record, desired string) State {
	_, marked := m.Annotations[clusterv1.UpdateInProgressAnnotation]
	switch {
	case !m.DeletionTimestamp.IsZero():
		return Deleting
	case rec.progressUnreadable():
		return Unreadable
	case rec.progress != nil && rec.progress.Phase == inplace.Failed:
		return Failed
	case rec.progress != nil:
		return Updating
	case marked:
		return computeMarked(m, rec)
	case isFinishing(m):
		return Updating
	case isUpToDate(m, desired):
		return UpToDate
	default:
		return Waiting
	}
}

// computeMarked is for a Machine that Cluster API has marked, and of which no update is recorded.
func computeMarked(m *clusterv1.Machine, rec record) State {
	switch {
	case refused(m):
		return Failed
	case ended(m, rec):
		return Updating
	default:
		return Queued
	}
}

// ended reports whether the update that Cluster API is waiting for has ended: a summary of it is there.
func ended(m *clusterv1.Machine, rec record) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpdatingCondition)
	return rec.summary != nil && c != nil && c.Status == metav1.ConditionTrue && !rec.summary.Ended.Before(c.LastTransitionTime.Time)
}

// isFinishing reports whether Cluster API has not looked at the Machine yet since its update ended.
func isFinishing(m *clusterv1.Machine) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpToDateCondition)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == clusterv1.MachineUpToDateUpdatingReason
}

// refused reports whether Cluster API's last question to update the Machine was answered with a failure.
func refused(m *clusterv1.Machine) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpdatingCondition)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == clusterv1.MachineInPlaceUpdateFailedReason
}

// isUpToDate goes by Cluster API's condition. A Machine has none when it is new, or where its owner does not set it; then
// versions decide.
func isUpToDate(m *clusterv1.Machine, desired string) bool {
	if c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpToDateCondition); c != nil && c.Status != metav1.ConditionUnknown {
		return c.Status == metav1.ConditionTrue
	}
	want, err := version.Parse(desired)
	if err != nil {
		return true
	}
	have, err := version.Parse(m.Spec.Version)
	return err != nil || have == want
}

func computeUpdate(m *clusterv1.Machine, rec record, state State, g *groupFacts, durations map[string]Duration, now time.Time) Update {
	u := Update{Machine: m.Name, Group: g.Name, State: state, MaxAttempts: g.Policy.MaxAttempts, Message: updatingMessage(m)}
	p := rec.progress
	if p == nil {
		// Cluster API marks a Machine before it changes its spec, so the owner knows better.
		u.To, _ = version.Parse(g.desired)
		if state == Unreadable {
			u.MaxAttempts = 0
		}
		return u
	}
	u.Phase, u.Attempt, u.Operation, u.LastError = p.Phase, p.Attempt, p.Operation, p.LastError
	u.From, u.To = p.From, p.To
	u.Began, u.Since = p.Began.UTC(), p.Started.UTC()
	u.Steps = len(p.Done) + len(p.Steps)
	u.Step = u.Steps
	if len(p.Steps) > 0 {
		u.Updater, u.Step = p.Steps[0].Updater, len(p.Done)+1
	}
	if p.NotBefore != nil {
		u.NotBefore = p.NotBefore.UTC()
	}
	u.ETA = computeETA(p, durations, g.Policy.Soak, now)
	return u
}

// updatingMessage is what Cluster API says about the update. It does not pass on why an update failed, so that a Machine's
// own condition counts first.
func updatingMessage(m *clusterv1.Machine) string {
	blocked := appendBlocked(nil, "", "", "", m.Status.Conditions)
	if len(blocked) > 0 {
		return blocked[0].Message
	}
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpdatingCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ""
	}
	return strings.TrimSpace(c.Message)
}

// computeETA adds up how long the rest of the plan took on other machines. An updater's measured time holds the drain before
// it and the wait for the node after it; the soak at the end is known.
func computeETA(p *inplace.Progress, durations map[string]Duration, soak time.Duration, now time.Time) ETA {
	var at time.Time
	switch p.Phase {
	case inplace.Failed:
		return ETA{}
	case inplace.Soaking:
		at = p.Started
		if p.Verified != nil {
			at = *p.Verified
		}
	case inplace.BackingOff:
		at = p.Started
		if p.NotBefore != nil {
			at = *p.NotBefore
		}
	case inplace.Draining, inplace.Updating, inplace.Verifying:
		at = p.StepBegan
		if p.Attempt > 1 {
			// Every attempt does the whole work again.
			at = p.Started
		}
	default:
		return ETA{}
	}
	if at.IsZero() {
		return ETA{}
	}
	for _, step := range p.Steps {
		d, measured := durations[step.Updater]
		if !measured {
			return ETA{}
		}
		at = at.Add(d.Median)
	}
	at = at.Add(soak).UTC()
	return ETA{At: at, Late: at.Before(now)}
}

// median of an empty list is 0; of an even number of values it is between the middle two.
func median(values []int64) int64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return sorted[middle-1] + (sorted[middle]-sorted[middle-1])/2
}
