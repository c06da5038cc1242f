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
			f.ScalingUp(), f.ScalingDown(), f.MachinesReady(), f.MachinesUpToDate(), f.Remediating(),
			f.Deleting(),
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
		return cmp.Or(
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	var versions []clusterv1.StatusVersion
	for _, m := range oldestFirst {
		versions = append(versions, clusterv1.StatusVersion{Version: kubeletOf(m), Replicas: 1})
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
	missing := missingTemplates(f.MachineSet.Spec.Template.Spec,
		f.BootstrapTemplateMissing, f.InfrastructureTemplateMissing)
	causes := slices.Clone(f.Blocked)
	if missing != "" {
		causes = append(causes, missing)
	}
	blocked := ""
	if len(causes) > 0 {
		blocked = ":\n* " + strings.Join(causes, "\n* ")
	}
	return f.scale(len(f.Machines)).up(conditionWords{
		kind:          clusterv1.MachineSetScalingUpCondition,
		isTrue:        clusterv1.MachineSetScalingUpReason,
		isFalse:       clusterv1.MachineSetNotScalingUpReason,
		internalError: clusterv1.MachineSetScalingUpInternalErrorReason,
		none:          clusterv1.MachineSetScalingUpWaitingForReplicasSetReason,
	}, f.deleting(), missing, blocked)
}

func (f SetFacts) scale(current int) scale {
	return scale{
		read: f.MachinesRead, replicas: f.MachineSet.Spec.Replicas,
		current: current, desired: f.desiredReplicas(),
	}
}

// ScalingDown is True while more Machines exist than desired. Machines that moved here and that the
// MachineDeployment has not counted yet are not too many. Its message names deletions that take
// long.
func (f SetFacts) ScalingDown() metav1.Condition {
	current := 0
	for _, m := range f.Machines {
		if !IsMovePending(m) {
			current++
		}
	}
	return f.scale(current).down(conditionWords{
		kind:          clusterv1.MachineSetScalingDownCondition,
		isTrue:        clusterv1.MachineSetScalingDownReason,
		isFalse:       clusterv1.MachineSetNotScalingDownReason,
		internalError: clusterv1.MachineSetScalingDownInternalErrorReason,
		none:          clusterv1.MachineSetScalingDownWaitingForReplicasSetReason,
	}, f.Machines, f.Now)
}

// MachinesReady summarizes the condition Ready of the Machines.
func (f SetFacts) MachinesReady() metav1.Condition {
	w := conditionWords{
		kind:          clusterv1.MachineSetMachinesReadyCondition,
		isTrue:        clusterv1.MachineSetMachinesReadyReason,
		isFalse:       clusterv1.MachineSetMachinesNotReadyReason,
		isUnknown:     clusterv1.MachineSetMachinesReadyUnknownReason,
		internalError: clusterv1.MachineSetMachinesReadyInternalErrorReason,
		none:          clusterv1.MachineSetMachinesReadyNoReplicasReason,
	}
	if !f.MachinesRead {
		return w.unread()
	}
	return w.summarize(f.Machines, clusterv1.MachineReadyCondition)
}

// MachinesUpToDate summarizes the condition UpToDate of the Machines. It omits Machines that are
// younger than 10 s and do not have it yet, so that it does not change for a moment with each new
// Machine.
func (f SetFacts) MachinesUpToDate() metav1.Condition {
	w := conditionWords{
		kind:          clusterv1.MachineSetMachinesUpToDateCondition,
		isTrue:        clusterv1.MachineSetMachinesUpToDateReason,
		isFalse:       clusterv1.MachineSetMachinesNotUpToDateReason,
		isUnknown:     clusterv1.MachineSetMachinesUpToDateUnknownReason,
		internalError: clusterv1.MachineSetMachinesUpToDateInternalErrorReason,
		none:          clusterv1.MachineSetMachinesUpToDateNoReplicasReason,
	}
	if !f.MachinesRead {
		return w.unread()
	}
	return w.summarize(reportingUpToDate(f.Machines, f.Now), clusterv1.MachineUpToDateCondition)
}

// Remediating is True while a MachineHealthCheck has the MachineSet remediate Machines.
func (f SetFacts) Remediating() metav1.Condition {
	w := conditionWords{
		kind:          clusterv1.MachineSetRemediatingCondition,
		isTrue:        clusterv1.MachineSetRemediatingReason,
		isFalse:       clusterv1.MachineSetNotRemediatingReason,
		internalError: clusterv1.MachineSetRemediatingInternalErrorReason,
	}
	if !f.MachinesRead {
		return w.unread()
	}
	return w.remediating(f.Machines, "MachineSet")
}

// Deleting is True while the MachineSet is deleted.
func (f SetFacts) Deleting() metav1.Condition {
	w := conditionWords{
		kind:          clusterv1.MachineSetDeletingCondition,
		isTrue:        clusterv1.MachineSetDeletingReason,
		isFalse:       clusterv1.MachineSetNotDeletingReason,
		internalError: clusterv1.MachineSetDeletingInternalErrorReason,
	}
	switch {
	case !f.MachinesRead:
		return w.unread()
	case !f.deleting():
		return w.asFalse("")
	}
	return w.asTrue(deletion(f.Machines, 0, f.Now))
}
