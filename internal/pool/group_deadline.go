package pool

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// The deadline of a group bounds a rollout that nobody watches. It does not count the time in which
// the rollout waits for a person, as the condition UpdateBlocked shows it. When that ends, the
// MachineDeployment records the time before another Machine begins, and the deadline counts from
// zero. A rollout that the deadline itself holds continues by a retry, which is recorded in the
// same way.

// began is since when the deadline counts; zero while it does not. It is the latest of these times:
// the new MachineSet was created, the MachineDeployment began to report a rollout, its annotation
// or its Cluster's pause ended, and the rollout was resumed.
func (g Group) began(newest *clusterv1.MachineSet) time.Time {
	md := g.MachineDeployment
	rolling := conditions.IsTrue(md, clusterv1.RollingOutCondition)
	if hold, _ := g.hold(); hold != "" || !rolling || newest == nil {
		return time.Time{}
	}
	began := newest.CreationTimestamp.Time
	for _, t := range []time.Time{
		sinceOf(md, clusterv1.RollingOutCondition), sinceOf(md, clusterv1.PausedCondition), g.resumed(),
	} {
		if t.After(began) {
			began = t
		}
	}
	return g.past(began)
}

// past is a time that others have recorded, as it counts now.
func (g Group) past(t time.Time) time.Time {
	return g.Clock.Past(g.MachineDeployment.Namespace, t, g.Now)
}

func sinceOf(md *clusterv1.MachineDeployment, kind string) time.Time {
	if c := conditions.Get(md, kind); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// hold returns why the rollout waits for a person, and since when; empty if it does not.
func (g Group) hold() (reason Reason, since time.Time) {
	c := conditions.Get(g.MachineDeployment, v1alpha1.UpdateBlockedCondition)
	if c == nil || c.Status != metav1.ConditionTrue || !Reason(c.Reason).StopsDeadline() {
		return "", time.Time{}
	}
	return Reason(c.Reason), g.past(c.LastTransitionTime.Time)
}

// StopsDeadline reports whether the deadline of a group does not count while UpdateBlocked has the
// reason. It counts while nobody knows the answer of an extension: one that fails now and then
// would otherwise begin it anew each time.
func (r Reason) StopsDeadline() bool {
	return r.Blocks() && r != ReasonGroupDeadline && r != ReasonCoverageUnknown
}

// resumed is when the rollout continued after a hold, as recorded; zero for never. A time that is
// still to come is not one that this controller has written.
func (g Group) resumed() time.Time {
	text := g.MachineDeployment.Annotations[v1alpha1.RolloutResumedAnnotation]
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.After(g.Now) {
		return time.Time{}
	}
	return t
}

// Resumes reports whether the rollout continues from now on, so that the time must be recorded
// before a Machine begins. why is why the plan neither updates nor replaces Machines; nil if it
// may.
func (g Group) Resumes(plan Plan, why *Decision) bool {
	hold, since := g.hold()
	// What is not covered stays so, and its condition too, while nobody answers.
	stays := why != nil && (why.Reason.StopsDeadline() ||
		hold == ReasonNotCovered && why.Reason == ReasonCoverageUnknown)
	return hold != "" && !stays && g.Limits != nil && g.Limits.GroupDeadline > 0 &&
		plan.LeavesMachines() && !g.resumed().After(since)
}

// RetriesLate reports whether a person asks for the deadline that holds the rollout to count from
// zero.
func RetriesLate(md *clusterv1.MachineDeployment) bool {
	_, asked := md.Annotations[v1alpha1.UpdateRetryAnnotation]
	c := conditions.Get(md, v1alpha1.UpdateBlockedCondition)
	return asked && c != nil && c.Status == metav1.ConditionTrue &&
		Reason(c.Reason) == ReasonGroupDeadline
}
