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

// Types, reasons and messages in this file are API of Cluster API: clients and upstream's tests
// compare them.

const (
	messageInternalError   = "Please check controller logs for errors"
	messageReplicasMissing = "Waiting for spec.replicas set"
	// newMachineGrace is how long a new Machine may lack the condition UpToDate before it counts.
	newMachineGrace = 10 * time.Second
	// staleDeletion is how long a deletion takes before a message names it, staleDrain how long a
	// drain does.
	staleDeletion = 15 * time.Minute
	staleDrain    = 5 * time.Minute
)

func condition(
	kind string,
	status metav1.ConditionStatus,
	reason, message string,
) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// Available is True while at least spec.replicas minus maxUnavailable Machines are available.
// available is the counter of the new status; nil if unknown.
func (f DeploymentFacts) Available(available *int32) metav1.Condition {
	const kind = clusterv1.MachineDeploymentAvailableCondition
	md := f.MachineDeployment
	switch {
	case !f.SetsRead:
		return condition(kind, metav1.ConditionUnknown,
			clusterv1.MachineDeploymentAvailableInternalErrorReason, messageInternalError)
	case md.Spec.Replicas == nil:
		return condition(kind, metav1.ConditionUnknown,
			clusterv1.MachineDeploymentAvailableWaitingForReplicasSetReason, messageReplicasMissing)
	case available == nil:
		return condition(kind, metav1.ConditionUnknown,
			clusterv1.MachineDeploymentAvailableWaitingForAvailableReplicasSetReason,
			"Waiting for status.availableReplicas set")
	}
	required := requiredAvailable(md)
	if *available >= required {
		return condition(kind, metav1.ConditionTrue, clusterv1.MachineDeploymentAvailableReason, "")
	}
	message := fmt.Sprintf("%d available replicas, at least %d required", *available, required)
	if isRollingUpdate(md) {
		message += fmt.Sprintf(" (spec.strategy.rollout.maxUnavailable is %s, spec.replicas is %d)",
			md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable, *md.Spec.Replicas)
	}
	if f.deleting() {
		message = "Deletion in progress"
	}
	return condition(
		kind, metav1.ConditionFalse, clusterv1.MachineDeploymentNotAvailableReason, message)
}

// requiredAvailable is how many Machines must be available: all, if maxUnavailable cannot be read.
func requiredAvailable(md *clusterv1.MachineDeployment) int32 {
	b, err := BudgetOf(md)
	if err != nil {
		return deref(md.Spec.Replicas)
	}
	return b.MinAvailable()
}

// RollingOut is True while the Machine controller reports Machines that are not up to date.
func (f DeploymentFacts) RollingOut() metav1.Condition {
	const kind = clusterv1.MachineDeploymentRollingOutCondition
	outdated, reasons := 0, map[string]bool{}
	for _, m := range f.Machines {
		c := conditions.Get(m, clusterv1.MachineUpToDateCondition)
		if c == nil || c.Status != metav1.ConditionFalse {
			continue
		}
		outdated++
		if c.Message != "" {
			for line := range strings.SplitSeq(c.Message, "\n") {
				reasons[line] = true
			}
		}
	}
	if outdated == 0 {
		return condition(
			kind, metav1.ConditionFalse, clusterv1.MachineDeploymentNotRollingOutReason, "")
	}
	lines := append(
		[]string{fmt.Sprintf("Rolling out %d not up-to-date replicas", outdated)},
		versionsFirst(reasons)...)
	return condition(kind, metav1.ConditionTrue,
		clusterv1.MachineDeploymentRollingOutReason, strings.Join(lines, "\n"))
}

// versionsFirst sorts reasons; those about versions come first.
func versionsFirst(reasons map[string]bool) []string {
	var versions, others []string
	for reason := range reasons {
		if strings.HasPrefix(reason, "* Version") {
			versions = append(versions, reason)
		} else {
			others = append(others, reason)
		}
	}
	slices.Sort(versions)
	slices.Sort(others)
	return append(versions, others...)
}

// ScalingUp is True while fewer Machines exist than desired. Its message names templates that do
// not exist.
func (f DeploymentFacts) ScalingUp() metav1.Condition {
	missing := missingTemplates(f.MachineDeployment.Spec.Template.Spec,
		f.BootstrapTemplateMissing, f.InfrastructureTemplateMissing)
	blocked := ""
	if missing != "" {
		blocked = " " + missing
	}
	return f.scale().up(conditionWords{
		kind:          clusterv1.MachineDeploymentScalingUpCondition,
		isTrue:        clusterv1.MachineDeploymentScalingUpReason,
		isFalse:       clusterv1.MachineDeploymentNotScalingUpReason,
		internalError: clusterv1.MachineDeploymentScalingUpInternalErrorReason,
		none:          clusterv1.MachineDeploymentScalingUpWaitingForReplicasSetReason,
	}, f.deleting(), missing, blocked)
}

func (f DeploymentFacts) scale() scale {
	return scale{
		read: f.SetsRead, replicas: f.MachineDeployment.Spec.Replicas,
		current: int(deref(CountSets(f.MachineSets).Replicas)), desired: int(f.desiredReplicas()),
	}
}

// missingTemplates says which templates of Machines do not exist; empty if all do.
func missingTemplates(spec clusterv1.MachineSpec, bootstrap, infrastructure bool) string {
	var kinds []string
	if bootstrap {
		kinds = append(kinds, spec.Bootstrap.ConfigRef.Kind)
	}
	if infrastructure {
		kinds = append(kinds, spec.InfrastructureRef.Kind)
	}
	switch len(kinds) {
	case 0:
		return ""
	case 1:
		return kinds[0] + " does not exist"
	}
	return strings.Join(kinds, " and ") + " do not exist"
}

// ScalingDown is True while more Machines exist than desired. Its message names deletions that take
// long.
func (f DeploymentFacts) ScalingDown() metav1.Condition {
	return f.scale().down(conditionWords{
		kind:          clusterv1.MachineDeploymentScalingDownCondition,
		isTrue:        clusterv1.MachineDeploymentScalingDownReason,
		isFalse:       clusterv1.MachineDeploymentNotScalingDownReason,
		internalError: clusterv1.MachineDeploymentScalingDownInternalErrorReason,
		none:          clusterv1.MachineDeploymentScalingDownWaitingForReplicasSetReason,
	}, f.Machines, f.Now)
}

// MachinesReady summarizes the condition Ready of the Machines.
func (f DeploymentFacts) MachinesReady() metav1.Condition {
	return conditionWords{
		kind:          clusterv1.MachineDeploymentMachinesReadyCondition,
		isTrue:        clusterv1.MachineDeploymentMachinesReadyReason,
		isFalse:       clusterv1.MachineDeploymentMachinesNotReadyReason,
		isUnknown:     clusterv1.MachineDeploymentMachinesReadyUnknownReason,
		internalError: clusterv1.MachineDeploymentMachinesReadyInternalErrorReason,
		none:          clusterv1.MachineDeploymentMachinesReadyNoReplicasReason,
	}.summarize(f.Machines, clusterv1.MachineReadyCondition)
}

// MachinesUpToDate summarizes the condition UpToDate of the Machines. It omits Machines that are
// younger than 10 s and do not have it yet, so that it does not change for a moment with each new
// Machine.
func (f DeploymentFacts) MachinesUpToDate() metav1.Condition {
	return conditionWords{
		kind:          clusterv1.MachineDeploymentMachinesUpToDateCondition,
		isTrue:        clusterv1.MachineDeploymentMachinesUpToDateReason,
		isFalse:       clusterv1.MachineDeploymentMachinesNotUpToDateReason,
		isUnknown:     clusterv1.MachineDeploymentMachinesUpToDateUnknownReason,
		internalError: clusterv1.MachineDeploymentMachinesUpToDateInternalErrorReason,
		none:          clusterv1.MachineDeploymentMachinesUpToDateNoReplicasReason,
	}.summarize(reportingUpToDate(f.Machines, f.Now), clusterv1.MachineUpToDateCondition)
}

// reportingUpToDate returns the Machines whose condition UpToDate counts.
func reportingUpToDate(machines []*clusterv1.Machine, now time.Time) []*clusterv1.Machine {
	return slices.DeleteFunc(slices.Clone(machines), func(m *clusterv1.Machine) bool {
		return !conditions.Has(m, clusterv1.MachineUpToDateCondition) &&
			now.Sub(m.CreationTimestamp.Time) <= newMachineGrace
	})
}

// Remediating is True while a MachineHealthCheck has the owner remediate Machines.
func (f DeploymentFacts) Remediating() metav1.Condition {
	return conditionWords{
		kind:          clusterv1.MachineDeploymentRemediatingCondition,
		isTrue:        clusterv1.MachineDeploymentRemediatingReason,
		isFalse:       clusterv1.MachineDeploymentNotRemediatingReason,
		internalError: clusterv1.MachineDeploymentRemediatingInternalErrorReason,
	}.remediating(f.Machines, "MachineDeployment/MachineSet")
}

// remediating summarizes the remediation of Machines by an owner.
func (w conditionWords) remediating(machines []*clusterv1.Machine, owner string) metav1.Condition {
	var remediated []*clusterv1.Machine
	var unhealthy []string
	for _, m := range machines {
		if IsUnhealthy(m) {
			unhealthy = append(unhealthy, m.Name)
		}
		if NeedsRemediation(m) {
			remediated = append(remediated, m)
		}
	}
	switch {
	case len(remediated) == 0 && len(unhealthy) == 0:
		return w.asFalse("")
	case len(remediated) == 0:
		return w.asFalse(machinesAre(unhealthy) + "not healthy (not to be remediated by " + owner + ")")
	}
	merged, err := conditions.NewAggregateCondition(remediated,
		clusterv1.MachineOwnerRemediatedCondition, conditions.TargetConditionType(w.kind))
	if err != nil {
		return w.unread()
	}
	return w.asTrue(merged.Message)
}

// Deleting is True while the MachineDeployment is deleted.
func (f DeploymentFacts) Deleting() metav1.Condition {
	w := conditionWords{
		kind:          clusterv1.MachineDeploymentDeletingCondition,
		isTrue:        clusterv1.MachineDeploymentDeletingReason,
		isFalse:       clusterv1.MachineDeploymentNotDeletingReason,
		internalError: clusterv1.MachineDeploymentDeletingInternalErrorReason,
	}
	switch {
	case !f.SetsRead:
		return w.unread()
	case !f.deleting():
		return w.asFalse("")
	}
	return w.asTrue(deletion(f.Machines, len(f.MachineSets), f.Now))
}

// staleDeletions is a line about Machines whose deletion takes long; empty if there is none.
func staleDeletions(machines []*clusterv1.Machine, now time.Time) string {
	message := StaleDeletions(machines, now)
	if message == "" {
		return ""
	}
	return "\n* " + message
}
