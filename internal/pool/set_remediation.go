package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	"github.com/windlass-dev/windlass/internal/record"
)

// othersRetry is how often a MachineSet looks again whether the remediation of others has ended:
// nothing watches their Machines.
const othersRetry = 15 * time.Second

// verdictTime is how long the end of an update delays remediation. A MachineHealthCheck looks at
// each Node once per second at most, and sees the end of the update later than the MachineSet does.
const verdictTime = 30 * time.Second

// heldMessage begins the message of the condition OwnerRemediated of a Machine that
// IsRemediationHeld.
const heldMessage = "Waiting because the Machine is being updated in place"

// IsRemediationHeld reports whether the MachineSet of an unhealthy Machine waits for the end of its
// update in place, as the condition OwnerRemediated shows it. So the update may begin, although a
// MachineHealthCheck has asked for remediation. Cluster API's own controller never waits for that.
func IsRemediationHeld(m *clusterv1.Machine) bool {
	c := conditions.Get(m, clusterv1.MachineOwnerRemediatedCondition)
	return c != nil && c.Status == metav1.ConditionFalse &&
		c.Reason == clusterv1.MachineSetMachineRemediationDeferredReason &&
		strings.HasPrefix(c.Message, heldMessage)
}

// Remediation is what happens to the Machines that a MachineHealthCheck found unhealthy. All lists
// are in RemediationOrder, Deferred with those that are being updated first.
type Remediation struct {
	// Recovered are healthy again: their condition OwnerRemediated is removed.
	Recovered []*clusterv1.Machine
	// Deferred wait. Their condition OwnerRemediated becomes False, with Reason and Message.
	Deferred []Deferral
	// Delete are deleted if the preflight checks pass.
	Delete []*clusterv1.Machine
	// After is when time alone changes the plan; 0 means never.
	After time.Duration
}

// Deferral is a Machine that is not remediated now.
type Deferral struct {
	Machine *clusterv1.Machine
	// Reason and Message are those of the condition.
	Reason, Message string
}

// Remediate decides about unhealthy Machines:
//   - An old MachineSet of a MachineDeployment remediates none, because the rollout removes them.
//     Where Machines are updated it remediates those that no update can reach.
//   - At most spec.remediation.maxInFlight Machines of a MachineDeployment are remediated at once.
//     Those that were deleted for it and still exist count. If SharesRemediation, so do those of
//     the other MachineSets, and Group is required.
//   - A Machine that is being updated waits where Machines are updated, and takes no place in flight.
//     The wait ends Policy.Longest after the Machine became unhealthy and the update began, or at
//     once if it has the annotation cluster.x-k8s.io/remediate-machine. After the update, a Machine
//     that was found unhealthy before its end waits for verdictTime more.
//
// It returns an error if maxInFlight is neither a number nor a percentage.
func (f SetFacts) Remediate() (Remediation, error) {
	var plan Remediation
	var unhealthy []*clusterv1.Machine
	for _, m := range RemediationOrder(f.Machines) {
		if isDeleting(m) {
			continue
		}
		if Recovered(m) || RecoveredLegacy(m) {
			plan.Recovered = append(plan.Recovered, m)
		}
		if !NeedsRemediation(m) {
			continue
		}
		deferral, after := f.deferral(m)
		if deferral.Reason == "" {
			unhealthy = append(unhealthy, m)
			continue
		}
		plan.Deferred = append(plan.Deferred, deferral)
		plan.After = sooner(plan.After, after)
	}
	shares := f.SharesRemediation()
	if shares {
		slices.SortStableFunc(unhealthy, decidedFirst)
	}
	now, deferral, err := f.remediationsNow(unhealthy)
	if err != nil {
		return Remediation{}, err
	}
	if now < len(unhealthy) && shares {
		plan.After = sooner(plan.After, othersRetry)
	}
	plan.Delete = slices.Clip(unhealthy[:now])
	for _, m := range unhealthy[now:] {
		deferral.Machine = m
		plan.Deferred = append(plan.Deferred, deferral)
	}
	return plan, nil
}

// deferral says why an unhealthy Machine waits whatever happens to others, and when time alone
// changes that; 0 means never. Without a Reason it need not wait.
func (f SetFacts) deferral(m *clusterv1.Machine) (why Deferral, after time.Duration) {
	switch {
	case f.isRolledOut(m):
		return Deferral{
			Machine: m, Reason: clusterv1.MachineSetMachineCannotBeRemediatedReason,
			Message: "Machine won't be remediated because it is pending removal due to rollout",
		}, 0
	case f.isHeld(m):
		return Deferral{
			Machine: m, Reason: clusterv1.MachineSetMachineRemediationDeferredReason,
			Message: fmt.Sprintf("%s (at most %s)", heldMessage, f.holdLimit()),
		}, f.holdLeft(m)
	}
	if left := f.verdictLeft(m); left > 0 {
		return Deferral{
			Machine: m, Reason: clusterv1.MachineSetMachineRemediationDeferredReason,
			Message: fmt.Sprintf("Waiting because the update in place has just ended, for a "+
				"MachineHealthCheck to look again (at most %s)", verdictTime),
		}, left
	}
	return Deferral{}, 0
}

// remediationsNow returns how many of the unhealthy Machines may be remediated now, the first ones,
// and why the others wait.
func (f SetFacts) remediationsNow(
	unhealthy []*clusterv1.Machine,
) (now int, others Deferral, err error) {
	count := len(unhealthy)
	if count == 0 || f.Deployment == nil {
		return count, Deferral{}, nil
	}
	limit := f.Deployment.Spec.Remediation.MaxInFlight
	if limit == nil {
		return count, Deferral{}, nil
	}
	replicas := 1
	if f.Deployment.Spec.Replicas != nil {
		replicas = int(*f.Deployment.Spec.Replicas)
	}
	most, err := intstr.GetScaledValueFromIntOrPercent(limit, replicas, true)
	if err != nil {
		return 0, Deferral{}, fmt.Errorf("reading spec.remediation.maxInFlight of MachineDeployment %s: "+
			"%w. Fix: set it to a number or a percentage",
			objectName(f.Deployment.Namespace, f.Deployment.Name), err)
	}
	for _, m := range f.Machines {
		if isDeleting(m) && wasRemediated(m) {
			most--
		}
	}
	now = min(max(most, 0), count)
	if f.SharesRemediation() {
		now = f.remediatedBeforeOthers(unhealthy, most)
	}
	return now, Deferral{
		Reason: clusterv1.MachineSetMachineRemediationDeferredReason,
		Message: fmt.Sprintf("Waiting because there are already too many remediations in progress "+
			"(spec.strategy.remediation.maxInFlight is %s)", limit),
	}, nil
}

// sooner returns the shorter of two waits; 0 means that there is none.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b <= 0 {
		return max(a, b, 0)
	}
	return min(a, b)
}

// isRolledOut reports whether the rollout removes an unhealthy Machine from its old MachineSet.
// Where updates are held, the rollout only moves Machines, and only those that an update may reach.
func (f SetFacts) isRolledOut(m *clusterv1.Machine) bool {
	return !f.isCurrent() && (!f.updates() || f.mayUpdate(m))
}

// isHeld reports whether a Machine waits for the end of its update in place.
func (f SetFacts) isHeld(m *clusterv1.Machine) bool {
	return f.updates() && IsUpdating(m) && !annotations.HasRemediateMachine(m) &&
		f.holdLeft(m) > 0
}

// verdictLeft is how long an unhealthy Machine may still wait because its update has ended after a
// MachineHealthCheck found it unhealthy: the update may have repaired it. 0 means not at all.
func (f SetFacts) verdictLeft(m *clusterv1.Machine) time.Duration {
	ended := f.past(updateEnded(m))
	c := conditions.Get(m, clusterv1.MachineHealthCheckSucceededCondition)
	if !f.updates() || annotations.HasRemediateMachine(m) || IsUpdating(m) ||
		ended.IsZero() || c == nil || f.past(c.LastTransitionTime.Time).After(ended) {
		return 0
	}
	return record.Left(ended, verdictTime, f.Now)
}

// past is a time that others have recorded, as it counts now.
func (f SetFacts) past(t time.Time) time.Time {
	return f.Clock.Past(f.MachineSet.Namespace, t, f.Now)
}

func (f SetFacts) holdLimit() time.Duration {
	return cmp.Or(f.Policy.Longest(), DefaultHoldLimit)
}

// holdLeft is how long an unhealthy Machine that is being updated may still wait. Neither time that
// it has been unhealthy before the update nor time that it has been updated in good health counts,
// and after a pause the wait begins anew: nobody works on the Machine meanwhile.
// It is the whole limit while the condition Updating does not tell when the update began.
func (f SetFacts) holdLeft(m *clusterv1.Machine) time.Duration {
	if !conditions.IsTrue(m, clusterv1.MachineUpdatingCondition) {
		return f.holdLimit()
	}
	var since time.Time
	for _, kind := range []string{
		clusterv1.MachineUpdatingCondition, clusterv1.MachineHealthCheckSucceededCondition,
	} {
		if c := conditions.Get(m, kind); c != nil && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	if since = afterPause(m, since); since.IsZero() {
		return f.holdLimit()
	}
	return record.Left(f.past(since), f.holdLimit(), f.Now)
}

// isCurrent reports whether the MachineSet has the current revision of its MachineDeployment, or
// has no MachineDeployment.
func (f SetFacts) isCurrent() bool {
	return f.Deployment == nil || f.Deployment.Annotations[clusterv1.RevisionAnnotation] ==
		f.MachineSet.Annotations[clusterv1.RevisionAnnotation]
}

// RemediationOrder returns the Machines in the order in which they are remediated: first those with
// the annotation cluster.x-k8s.io/remediate-machine; then the newest, which most probably run
// nothing; then by name.
func RemediationOrder(machines []*clusterv1.Machine) []*clusterv1.Machine {
	place := func(m *clusterv1.Machine) int {
		if annotations.HasRemediateMachine(m) {
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(machines), func(a, b *clusterv1.Machine) int {
		return cmp.Or(cmp.Compare(place(a), place(b)),
			b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}

// Recovered reports whether a Machine that was to be remediated is healthy again.
func Recovered(m *clusterv1.Machine) bool {
	return conditions.IsTrue(m, clusterv1.MachineHealthCheckSucceededCondition) &&
		conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)
}

// RecoveredLegacy is Recovered by the conditions of API v1beta1.
func RecoveredLegacy(m *clusterv1.Machine) bool {
	return v1beta1conditions.IsTrue(m, clusterv1.MachineHealthCheckSucceededV1Beta1Condition) &&
		v1beta1conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition)
}

// wasRemediated reports whether a MachineSet decided to delete a Machine in order to remediate it.
func wasRemediated(m *clusterv1.Machine) bool {
	c := conditions.Get(m, clusterv1.MachineOwnerRemediatedCondition)
	return c != nil && c.Status == metav1.ConditionFalse &&
		c.Reason == clusterv1.MachineSetMachineRemediationMachineDeletingReason
}
