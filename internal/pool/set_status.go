package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// SetStatus is the part of a MachineSet's status that follows from SetFacts.
type SetStatus struct {
	Counters SetCounters
	Selector string
	// Conditions are in a fixed order and have no transition times: the caller merges them with
	// sigs.k8s.io/cluster-api/util/conditions.Set.
	Conditions []metav1.Condition
}

// SetCounters count Machines. A counter is nil if it was never written.
type SetCounters struct {
	Replicas, Ready, Available, UpToDate *int32
	Versions                             []clusterv1.StatusVersion
}

// Into writes the counters to a status.
func (c SetCounters) Into(status *clusterv1.MachineSetStatus) {
	status.Replicas, status.ReadyReplicas, status.AvailableReplicas = c.Replicas, c.Ready, c.Available
	status.UpToDateReplicas, status.Versions = c.UpToDate, c.Versions
}

// Status computes the status. It returns an error if the selector is invalid.
func (f SetFacts) Status() (SetStatus, error) {
	selector, err := metav1.LabelSelectorAsSelector(&f.MachineSet.Spec.Selector)
	if err != nil {
		return SetStatus{}, fmt.Errorf("reading the selector of MachineSet %s: %w",
			objectName(f.MachineSet.Namespace, f.MachineSet.Name), err)
	}
	return SetStatus{
		Counters: f.Counters(), Selector: selector.String(),
		Conditions: []metav1.Condition{
			f.ScalingUp(), f.ScalingDown(), f.MachinesReady(), f.MachinesUpToDate(), f.Remediating(), f.Deleting(),
		},
	}, nil
}

// Counters counts the Machines. A Machine that is being updated in place is neither ready nor
// available nor up to date: its own conditions may be older than the update. If the Machines were
// not read, the counters are those of the old status.
func (f SetFacts) Counters() SetCounters {
	if !f.MachinesRead {
		old := f.MachineSet.Status
		return SetCounters{
			Replicas: old.Replicas, Ready: old.ReadyReplicas, Available: old.AvailableReplicas,
			UpToDate: old.UpToDateReplicas, Versions: old.Versions,
		}
	}
	var ready, available, upToDate int32
	count := func(counter *int32, m *clusterv1.Machine, kind string) {
		if conditions.IsTrue(m, kind) {
			*counter++
		}
	}
	for _, m := range f.Machines {
		if IsUpdating(m) {
			continue
		}
		count(&ready, m, clusterv1.MachineReadyCondition)
		count(&available, m, clusterv1.MachineAvailableCondition)
		count(&upToDate, m, clusterv1.MachineUpToDateCondition)
	}
	total := int32(len(f.Machines)) // #nosec G115 -- a number of Machines
	return SetCounters{
		Replicas: &total, Ready: &ready, Available: &available, UpToDate: &upToDate,
		Versions: machineVersions(f.Machines),
	}
}

// machineVersions counts Machines by the version of the kubelet, or else of spec, lowest first.
// Versions that have no order are in the order of their oldest Machines.
func machineVersions(machines []*clusterv1.Machine) []clusterv1.StatusVersion {
	oldestFirst := slices.SortedStableFunc(slices.Values(machines), func(a, b *clusterv1.Machine) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	var versions []clusterv1.StatusVersion
	for _, m := range oldestFirst {
		v := m.Spec.Version
		if m.Status.NodeInfo != nil && m.Status.NodeInfo.KubeletVersion != "" {
			v = m.Status.NodeInfo.KubeletVersion
		}
		versions = append(versions, clusterv1.StatusVersion{Version: v, Replicas: 1})
	}
	return sumVersions(versions)
}

func (f SetFacts) deleting() bool { return !f.MachineSet.DeletionTimestamp.IsZero() }

// desiredReplicas is spec.replicas, or 0 while the MachineSet is deleted.
func (f SetFacts) desiredReplicas() int {
	if f.deleting() {
		return 0
	}
	return int(deref(f.MachineSet.Spec.Replicas))
}

// ScalingUp is True while fewer Machines exist than desired. Its message names what blocks their
// creation.
func (f SetFacts) ScalingUp() metav1.Condition {
	const kind = clusterv1.MachineSetScalingUpCondition
	switch {
	case !f.MachinesRead:
		return condition(kind, metav1.ConditionUnknown,
			clusterv1.MachineSetScalingUpInternalErrorReason, messageInternalError)
	case f.MachineSet.Spec.Replicas == nil:
		return condition(kind, metav1.ConditionUnknown,
			clusterv1.MachineSetScalingUpWaitingForReplicasSetReason, messageReplicasMissing)
	}
	current, desired := len(f.Machines), f.desiredReplicas()
	missing := missingTemplates(f.MachineSet.Spec.Template.Spec,
		f.BootstrapTemplateMissing, f.InfrastructureTemplateMissing)
	if current >= desired {
		message := ""
		if !f.deleting() && missing != "" {
			message = "Scaling up would be blocked because " + missing
		}
		return condition(kind, metav1.ConditionFalse, clusterv1.MachineSetNotScalingUpReason, message)
	}
	causes := slices.Clone(f.Blocked)
	if missing != "" {
		causes = append(causes, missing)
	}
	message := fmt.Sprintf("Scaling up from %d to %d replicas", current, desired)
	if len(causes) > 0 {
		message += " is blocked because:\n* " + strings.Join(causes, "\n* ")
	}
	return condition(kind, metav1.ConditionTrue, clusterv1.MachineSetScalingUpReason, message)
}

// ScalingDown is True while more Machines exist than desired. Machines that moved here and that the
// MachineDeployment has not counted yet are not too many. Its message names deletions that take
// long.
func (f SetFacts) ScalingDown() metav1.Condition {
	const kind = clusterv1.MachineSetScalingDownCondition
	switch {
	case !f.MachinesRead:
		return condition(kind, metav1.ConditionUnknown,
			clusterv1.MachineSetScalingDownInternalErrorReason, messageInternalError)
	case f.MachineSet.Spec.Replicas == nil:
		return condition(kind, metav1.ConditionUnknown,
			clusterv1.MachineSetScalingDownWaitingForReplicasSetReason, messageReplicasMissing)
	}
	current, desired := 0, f.desiredReplicas()
	for _, m := range f.Machines {
		if !IsMovePending(m) {
			current++
		}
	}
	if current <= desired {
		return condition(kind, metav1.ConditionFalse, clusterv1.MachineSetNotScalingDownReason, "")
	}
	return condition(kind, metav1.ConditionTrue, clusterv1.MachineSetScalingDownReason,
		fmt.Sprintf("Scaling down from %d to %d replicas", current, desired)+
			staleDeletions(f.Machines, f.Now))
}

// MachinesReady summarizes the condition Ready of the Machines.
func (f SetFacts) MachinesReady() metav1.Condition {
	const kind = clusterv1.MachineSetMachinesReadyCondition
	switch {
	case !f.MachinesRead:
		return condition(kind, metav1.ConditionUnknown,
			clusterv1.MachineSetMachinesReadyInternalErrorReason, messageInternalError)
	case len(f.Machines) == 0:
		return condition(kind, metav1.ConditionTrue, clusterv1.MachineSetMachinesReadyNoReplicasReason, "")
	}
	return summarize(f.Machines, clusterv1.MachineReadyCondition, kind, [4]string{
		clusterv1.MachineSetMachinesNotReadyReason, clusterv1.MachineSetMachinesReadyUnknownReason,
		clusterv1.MachineSetMachinesReadyReason, clusterv1.MachineSetMachinesReadyInternalErrorReason,
	})
}

// MachinesUpToDate summarizes the condition UpToDate of the Machines. It omits Machines that are
// younger than 10 s and do not have it yet, so that it does not change for a moment with each new
// Machine.
func (f SetFacts) MachinesUpToDate() metav1.Condition {
	const kind = clusterv1.MachineSetMachinesUpToDateCondition
	if !f.MachinesRead {
		return condition(kind, metav1.ConditionUnknown,
			clusterv1.MachineSetMachinesUpToDateInternalErrorReason, messageInternalError)
	}
	reporting := reportingUpToDate(f.Machines, f.Now)
	if len(reporting) == 0 {
		return condition(kind, metav1.ConditionTrue, clusterv1.MachineSetMachinesUpToDateNoReplicasReason, "")
	}
	return summarize(reporting, clusterv1.MachineUpToDateCondition, kind, [4]string{
		clusterv1.MachineSetMachinesNotUpToDateReason, clusterv1.MachineSetMachinesUpToDateUnknownReason,
		clusterv1.MachineSetMachinesUpToDateReason, clusterv1.MachineSetMachinesUpToDateInternalErrorReason,
	})
}

// Remediating is True while a MachineHealthCheck has the MachineSet remediate Machines.
func (f SetFacts) Remediating() metav1.Condition {
	const kind = clusterv1.MachineSetRemediatingCondition
	if !f.MachinesRead {
		return condition(kind, metav1.ConditionUnknown,
			clusterv1.MachineSetRemediatingInternalErrorReason, messageInternalError)
	}
	return remediating(f.Machines, remediationWords{
		kind: kind, owner: "MachineSet",
		remediating:    clusterv1.MachineSetRemediatingReason,
		notRemediating: clusterv1.MachineSetNotRemediatingReason,
		internalError:  clusterv1.MachineSetRemediatingInternalErrorReason,
	})
}

// Deleting is True while the MachineSet is deleted.
func (f SetFacts) Deleting() metav1.Condition {
	const kind = clusterv1.MachineSetDeletingCondition
	switch {
	case !f.MachinesRead:
		return condition(kind, metav1.ConditionUnknown,
			clusterv1.MachineSetDeletingInternalErrorReason, messageInternalError)
	case !f.deleting():
		return condition(kind, metav1.ConditionFalse, clusterv1.MachineSetNotDeletingReason, "")
	}
	message := "Deletion completed"
	switch n := len(f.Machines); n {
	case 0:
	case 1:
		message = "Deleting 1 Machine" + staleDeletions(f.Machines, f.Now)
	default:
		message = fmt.Sprintf("Deleting %d Machines", n) + staleDeletions(f.Machines, f.Now)
	}
	return condition(kind, metav1.ConditionTrue, clusterv1.MachineSetDeletingReason, message)
}
