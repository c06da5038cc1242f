package machineset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/collections"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
)

// A remediation says what happens to Machines that are, or were, unhealthy.
type remediation struct {
	// Recovered are healthy again.
	Recovered []*clusterv1.Machine
	// Deferred wait, for the reason and message.
	Deferred                        []*clusterv1.Machine
	DeferredReason, DeferredMessage string
	// Delete are to be deleted, in this order, if the preflight checks pass.
	Delete []*clusterv1.Machine
}

// planRemediation decides about unhealthy Machines. An old MachineSet of a MachineDeployment remediates
// none: the rollout deletes them. At most maxInFlight Machines of a current one are deleted at once.
func planRemediation(
	set *clusterv1.MachineSet, deployment *clusterv1.MachineDeployment, machines []*clusterv1.Machine,
) (remediation, error) {
	var plan remediation
	budget := math.MaxInt
	for _, m := range machines {
		switch {
		case !m.DeletionTimestamp.IsZero():
			if isBeingRemediated(m) {
				budget--
			}
		case recovered(m) || recoveredOld(m):
			plan.Recovered = append(plan.Recovered, m)
			if collections.IsUnhealthyAndOwnerRemediated(m) && !recovered(m) {
				plan.Delete = append(plan.Delete, m)
			}
		case collections.IsUnhealthyAndOwnerRemediated(m):
			plan.Delete = append(plan.Delete, m)
		}
	}
	if len(plan.Delete) == 0 || deployment == nil {
		sortForRemediation(plan.Delete)
		return plan, nil
	}
	if deployment.Annotations[clusterv1.RevisionAnnotation] != set.Annotations[clusterv1.RevisionAnnotation] {
		plan.Deferred, plan.Delete = plan.Delete, nil
		plan.DeferredReason = clusterv1.MachineSetMachineCannotBeRemediatedReason
		plan.DeferredMessage = "Machine won't be remediated because it is pending removal due to rollout"
		return plan, nil
	}
	sortForRemediation(plan.Delete)
	limit := deployment.Spec.Remediation.MaxInFlight
	if limit == nil {
		return plan, nil
	}
	replicas := 1
	if deployment.Spec.Replicas != nil {
		replicas = int(*deployment.Spec.Replicas)
	}
	inFlight := math.MaxInt - budget
	most, err := intstr.GetScaledValueFromIntOrPercent(limit, replicas, true)
	if err != nil {
		return remediation{}, fmt.Errorf("failed to calculate maxInFlight to remediate machines: %w", err)
	}
	if now := max(most-inFlight, 0); len(plan.Delete) > now {
		plan.Deferred, plan.Delete = plan.Delete[now:], plan.Delete[:now]
		plan.DeferredReason = clusterv1.MachineSetMachineRemediationDeferredReason
		plan.DeferredMessage = fmt.Sprintf("Waiting because there are already too many remediations in progress "+
			"(spec.strategy.remediation.maxInFlight is %s)", limit)
	}
	return plan, nil
}

// recovered and recoveredOld report whether a Machine is healthy again, by the conditions of either form.
func recovered(m *clusterv1.Machine) bool {
	return conditions.IsTrue(m, clusterv1.MachineHealthCheckSucceededCondition) &&
		conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)
}

func recoveredOld(m *clusterv1.Machine) bool {
	return v1beta1conditions.IsTrue(m, clusterv1.MachineHealthCheckSucceededV1Beta1Condition) &&
		v1beta1conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition)
}

// isBeingRemediated reports whether a MachineSet has deleted a Machine because it is unhealthy.
func isBeingRemediated(m *clusterv1.Machine) bool {
	c := conditions.Get(m, clusterv1.MachineOwnerRemediatedCondition)
	return c != nil && c.Status == metav1.ConditionFalse &&
		c.Reason == clusterv1.MachineSetMachineRemediationMachineDeletingReason
}

// sortForRemediation puts Machines first for which a person asks, and then the newest: they are the
// least likely to run anything.
func sortForRemediation(machines []*clusterv1.Machine) {
	asked := func(m *clusterv1.Machine) int {
		if annotations.HasRemediateMachine(m) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(machines, func(a, b *clusterv1.Machine) int {
		return cmp.Or(cmp.Compare(asked(a), asked(b)),
			b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}
