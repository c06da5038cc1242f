package status

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/pkg/version"
)

// computeState says where a Machine's update is. What Windlass recorded counts before what Cluster API says, because
// Cluster API learns of it later. Of a Machine whose node an annotation brought to another version than its spec says, Cluster API says without end that it
// is being updated.
func computeState(m *clusterv1.Machine, rec machineRecord, g *groupFacts, offSpec bool) State {
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
		return computeFinishing(rec, offSpec)
	case isUpToDate(m, g) && !isLost(m):
		return UpToDate
	default:
		return Waiting
	}
}

// motionOf says what happens to a Machine in a state.
func motionOf(m *clusterv1.Machine, state State) Motion {
	switch {
	case state == Deleting:
		return Removal
	case !m.Status.NodeRef.IsDefined():
		return Creation
	case slices.Contains([]State{Marked, Queued, Updating, Finished}, state):
		return InPlaceUpdate
	}
	return ""
}

// computeFinishing is for a Machine of which Cluster API says that it is being updated, and of which nothing else is known.
func computeFinishing(rec machineRecord, offSpec bool) State {
	switch {
	case offSpec:
		return UpToDate
	case rec.summary != nil:
		return Finished
	default:
		return Updating
	}
}

// computeMarked is for a Machine that Cluster API has marked, and of which no update is recorded.
func computeMarked(m *clusterv1.Machine, rec machineRecord) State {
	switch {
	case refused(m):
		return Failed
	case ended(m, rec):
		return Finished
	case !handedOver(m):
		return Marked
	default:
		return Queued
	}
}

// handedOver reports whether Cluster API has written the Machine's desired state: it notes the hook in the same write, or
// after it, and not before.
func handedOver(m *clusterv1.Machine) bool {
	return slices.Contains(strings.Split(m.Annotations[runtimev1.PendingHooksAnnotation], ","), updateMachineHook)
}

// updateMachineHook is the hook's name in the annotation of pending hooks.
const updateMachineHook = "UpdateMachine"

// ended reports whether the update that Cluster API is waiting for has ended: a summary of it is there. The summary of a
// Machine of a MachineSet has its target. For another Machine the condition Updating has the time since which Cluster API
// waits.
func ended(m *clusterv1.Machine, rec machineRecord) bool {
	if rec.summary == nil || !handedOver(m) {
		return false
	}
	if to := rec.summary.Target; to != "" {
		desired, err := version.Parse(m.Spec.Version)
		return err == nil && to == capi.TemplateOf(m) && rec.summary.To == desired
	}
	c := updating(m)
	return c != nil && !rec.summary.Ended.Before(c.LastTransitionTime.Time)
}

// isFinishing reports whether Cluster API has not looked at the Machine yet since its update ended.
func isFinishing(m *clusterv1.Machine) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpToDateCondition)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == clusterv1.MachineUpToDateUpdatingReason
}

// refused reports whether Cluster API's last question to update the Machine was answered with a failure.
func refused(m *clusterv1.Machine) bool {
	c := updating(m)
	return c != nil && c.Reason == clusterv1.MachineInPlaceUpdateFailedReason
}

// updating returns Cluster API's condition that a Machine is being updated; nil where it does not
// say so.
func updating(m *clusterv1.Machine) *metav1.Condition {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpdatingCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return c
}

// isUpToDate goes by Cluster API's condition. A Machine has none when it is new, or where its owner does not set it; then
// versions decide. They also do if the condition is True and its owner's controller has not seen the owner's latest change.
func isUpToDate(m *clusterv1.Machine, g *groupFacts) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpToDateCondition)
	switch {
	case c != nil && c.Status == metav1.ConditionFalse:
		return false
	case c != nil && c.Status == metav1.ConditionTrue && !g.unobserved:
		return true
	}
	want, err := version.Parse(g.desired)
	if err != nil {
		return true
	}
	have, err := version.Parse(m.Spec.Version)
	return err != nil || have == want
}

// isLost reports whether a Machine is as desired and serves nobody: a MachineHealthCheck has marked it, or it has
// no Node and its provider reports that it has no infrastructure.
func isLost(m *clusterv1.Machine) bool {
	return pool.IsUnhealthy(m) || !m.Status.NodeRef.IsDefined() &&
		meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
}

func computeUpdate(m *clusterv1.Machine, rec machineRecord, state State, g *groupFacts, durations map[string]Duration, now time.Time) Update {
	u := Update{Machine: m.Name, Group: g.Name, State: state, MaxAttempts: g.Policy.MaxAttempts, Message: messageOf(m, rec, state)}
	p := rec.progress
	if p == nil {
		u.To = desiredVersion(m, state, g.desired)
		if state == Unreadable || state == Finished {
			u.MaxAttempts = 0
		}
		return u
	}
	u = withProgress(u, p)
	if p.Phase == inplace.Draining {
		u.Fix = drainFix(m, u.Message)
	}
	u.ETA = computeETA(p, durations, g.Policy.Soak.Duration, now)
	return u
}

// desiredVersion is what an update of which nothing is recorded leads to. Cluster API marks a Machine before it changes its
// spec; until then its owner may know, if what is known of it is not older than the mark.
func desiredVersion(m *clusterv1.Machine, state State, ofOwner string) version.Version {
	have, _ := version.Parse(m.Spec.Version) // What cannot be read is not shown.
	if state != Marked {
		return have
	}
	want, _ := version.Parse(ofOwner)
	if want == have {
		return version.Version{}
	}
	return want
}

// inProgressPrefix is what Cluster API puts before the answer of the hook UpdateMachine.
const inProgressPrefix = "In-place update in progress: "

// messageOf is what there is to say about an update beyond its progress. What Cluster API says counts only where it is about
// what goes on now: it asks from time to time, and repeats the last answer in between.
func messageOf(m *clusterv1.Machine, rec machineRecord, state State) string {
	blocked := appendBlocked(nil, "Machine", m.Name, "", m.Status.Conditions)
	switch {
	case state == Marked:
		return "Cluster API has not changed its spec yet"
	case state == Finished:
		return "Cluster API has not noticed yet"
	case rec.progress != nil && rec.progress.Phase == inplace.Failed:
		return ""
	case len(blocked) > 0 && standsStill(blocked[0], rec.progress):
		// Cluster API does not pass on why an update was refused, so that a Machine's own condition counts first.
		return blocked[0].Message
	}
	c := updating(m)
	if c == nil {
		return ""
	}
	if rec.progress != nil {
		detail, _ := inplace.Detail(rec.progress, c.Message)
		return strings.TrimSpace(detail)
	}
	if inplace.AboutStep(c.Message) {
		return ""
	}
	return strings.TrimSpace(strings.TrimPrefix(c.Message, inProgressPrefix))
}

// standsStill reports whether a Machine's condition is why its update does not go on. Where progress is recorded, it must be
// one of the refusals to carry on what is recorded, and not from before; others are left from an earlier decision.
func standsStill(b Blocked, p *inplace.Progress) bool {
	switch {
	case p == nil || p.Phase == inplace.Failed:
		return true
	case b.Reason == v1alpha1.NoDecisionReason || b.Reason == v1alpha1.DesiredChangedReason || b.Reason == v1alpha1.UnknownRecordReason:
		// Conditions have whole seconds.
		return !b.Since.Before(p.Started.Truncate(time.Second))
	default:
		return false
	}
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
		at = at.Add(d.Median.Duration)
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
