package pool

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// A rollout changes the status of its groups several times a second: each step of a Machine is in
// counters, and each word of its updater is in messages. The functions here tell which changes
// nobody acts on, so that several of them can be written at once.

// passing are the conditions that describe the steps of a rollout.
var passing = []string{
	clusterv1.MachineDeploymentRollingOutCondition, clusterv1.MachineDeploymentScalingUpCondition,
	clusterv1.MachineDeploymentScalingDownCondition, clusterv1.MachineDeploymentMachinesReadyCondition,
	clusterv1.MachineDeploymentMachinesUpToDateCondition,
}

// DeploymentStatusMayWait reports whether the status of after can be written later than at once.
// before is what the API server has. It may wait while a rollout or scaling is in progress: then
// counters and the conditions that describe it change again soon. It may not if the generation that
// was observed changes, if another condition changes, or if the group is at rest.
func DeploymentStatusMayWait(before, after *clusterv1.MachineDeployment) bool {
	if before.Status.ObservedGeneration != after.Status.ObservedGeneration {
		return false
	}
	if !slices.EqualFunc(
		lasting(before.Status.Conditions), lasting(after.Status.Conditions), saysSame,
	) {
		return false
	}
	return !isAtRest(after)
}

// isAtRest reports whether all Machines are available and up to date, and none comes or goes.
func isAtRest(md *clusterv1.MachineDeployment) bool {
	for _, kind := range []string{
		clusterv1.MachineDeploymentRollingOutCondition, clusterv1.MachineDeploymentScalingUpCondition,
		clusterv1.MachineDeploymentScalingDownCondition,
	} {
		if !conditions.IsFalse(md, kind) {
			return false
		}
	}
	wanted := md.Spec.Replicas
	return wanted != nil && !slices.ContainsFunc([]*int32{
		md.Status.Replicas, md.Status.ReadyReplicas, md.Status.AvailableReplicas,
		md.Status.UpToDateReplicas,
	}, func(count *int32) bool { return count == nil || *count != *wanted })
}

// lasting returns the conditions that do not describe the steps of a rollout.
func lasting(all []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool {
		return slices.Contains(passing, c.Type)
	})
}

func saysSame(a, b metav1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// SetStatusMayWait is DeploymentStatusMayWait for a MachineSet. Its counters never wait, because
// the MachineDeployment decides on them, and neither does the status of a condition: only messages,
// versions, and the form of API v1beta1 do.
func SetStatusMayWait(before, after *clusterv1.MachineSet) bool {
	a, b := &before.Status, &after.Status
	if a.ObservedGeneration != b.ObservedGeneration ||
		!slices.EqualFunc(countsOf(a), countsOf(b), sameCount) {
		return false
	}
	return slices.EqualFunc(a.Conditions, b.Conditions, func(x, y metav1.Condition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason &&
			(x.Message == y.Message || slices.Contains(passing, x.Type))
	})
}

func countsOf(s *clusterv1.MachineSetStatus) []*int32 {
	return []*int32{s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.UpToDateReplicas}
}

func sameCount(a, b *int32) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
