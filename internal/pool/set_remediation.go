package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
)

// Remediation is what happens to the Machines that a MachineHealthCheck found unhealthy. All lists
// are in RemediationOrder, Deferred with those that are being updated first.
type Remediation struct {
	// Recovered are healthy again: their condition OwnerRemediated is removed.
	Recovered []*clusterv1.Machine
	// Deferred wait. Their condition OwnerRemediated becomes False, with Reason and Message.
	Deferred []Deferral
	// Delete are deleted if the preflight checks pass.
	Delete []*clusterv1.Machine
}

// Deferral is a Machine that is not remediated now.
type Deferral struct {
	Machine *clusterv1.Machine
	// Reason and Message are those of the condition.
	Reason, Message string
}

// Remediate decides about unhealthy Machines:
//   - An old MachineSet of a MachineDeployment remediates none, because the rollout removes them.
//   - At most spec.remediation.maxInFlight Machines of a MachineDeployment are remediated at once.
//     Those that were deleted for it and still exist count.
//   - A Machine that is being updated waits if Policy.HoldUpdating, and takes no place in flight.
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
		switch {
		case !NeedsRemediation(m):
		case f.Policy.HoldUpdating && IsUpdating(m) && f.isCurrent():
			plan.Deferred = append(plan.Deferred, Deferral{m, clusterv1.MachineSetMachineRemediationDeferredReason,
				"Waiting because the Machine is being updated in place"})
		default:
			unhealthy = append(unhealthy, m)
		}
	}
	now, deferral, err := f.remediationsNow(len(unhealthy))
	if err != nil {
		return Remediation{}, err
	}
	plan.Delete = slices.Clip(unhealthy[:now])
	for _, m := range unhealthy[now:] {
		deferral.Machine = m
		plan.Deferred = append(plan.Deferred, deferral)
	}
	return plan, nil
}

// remediationsNow returns how many of count Machines may be remediated now, and why the others
// wait.
func (f SetFacts) remediationsNow(count int) (now int, others Deferral, err error) {
	switch {
	case count == 0 || f.Deployment == nil:
		return count, Deferral{}, nil
	case !f.isCurrent():
		return 0, Deferral{
			Reason:  clusterv1.MachineSetMachineCannotBeRemediatedReason,
			Message: "Machine won't be remediated because it is pending removal due to rollout",
		}, nil
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
		return 0, Deferral{}, fmt.Errorf("reading spec.remediation.maxInFlight of MachineDeployment %s: %w. "+
			"Fix: set it to a number or a percentage", objectName(f.Deployment.Namespace, f.Deployment.Name), err)
	}
	for _, m := range f.Machines {
		if isDeleting(m) && wasRemediated(m) {
			most--
		}
	}
	return min(max(most, 0), count), Deferral{
		Reason: clusterv1.MachineSetMachineRemediationDeferredReason,
		Message: fmt.Sprintf("Waiting because there are already too many remediations in progress "+
			"(spec.strategy.remediation.maxInFlight is %s)", limit),
	}, nil
}

// isCurrent reports whether the MachineSet has the current revision of its MachineDeployment, or has
// no MachineDeployment.
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
