package pool

import (
	"slices"
	"strconv"

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
// was observed changes, if a rollout begins, if another condition changes, or if the group is at
// rest.
func DeploymentStatusMayWait(before, after *clusterv1.MachineDeployment) bool {
	const rollingOut = clusterv1.MachineDeploymentRollingOutCondition
	if before.Status.ObservedGeneration != after.Status.ObservedGeneration ||
		!conditions.IsTrue(before, rollingOut) && conditions.IsTrue(after, rollingOut) {
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

// SetStatusMayWait is DeploymentStatusMayWait for a MachineSet. current says that the MachineSet
// has the template of its MachineDeployment. The MachineDeployment decides on counters and on the
// generation that an old MachineSet has observed. It counts Machines itself, too, and takes the
// safer number. So counters wait unless they allow it something:
//   - Replicas wait if they rise by a move.
//   - UpToDate waits until it covers all Machines of the MachineDeployment.
//   - Ready and Available never wait.
//   - The generation waits for a MachineSet that Machines move to.
//
// The conditions that describe steps wait, and so do versions and the form of API v1beta1.
func SetStatusMayWait(before, after *clusterv1.MachineSet, current bool) bool {
	a, b := &before.Status, &after.Status
	receives := current && Receives(after)
	switch {
	case a.ObservedGeneration != b.ObservedGeneration && !receives,
		!sameCount(a.ReadyReplicas, b.ReadyReplicas),
		!sameCount(a.AvailableReplicas, b.AvailableReplicas),
		!sameCount(a.Replicas, b.Replicas) && (!receives || !rises(a.Replicas, b.Replicas)),
		!sameCount(a.UpToDateReplicas, b.UpToDateReplicas) &&
			(a.UpToDateReplicas == nil || deref(b.UpToDateReplicas) == groupReplicas(after)):
		return false
	}
	return slices.EqualFunc(lasting(a.Conditions), lasting(b.Conditions), saysSame)
}

func sameCount(a, b *int32) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// groupReplicas is how many Machines the MachineDeployment of a MachineSet wants.
func groupReplicas(set *clusterv1.MachineSet) int32 {
	n, err := strconv.ParseInt(set.Annotations[clusterv1.DesiredReplicasAnnotation], 10, 32)
	if err != nil {
		return deref(set.Spec.Replicas)
	}
	return int32(n)
}

// IsRolling reports whether Machines of a MachineSet come or go in a rollout. current says that it
// has the template of its MachineDeployment.
func IsRolling(set *clusterv1.MachineSet, current bool) bool {
	if !current {
		return max(deref(set.Spec.Replicas), deref(set.Status.Replicas)) > 0
	}
	return deref(set.Status.AvailableReplicas) != groupReplicas(set)
}

func rises(a, b *int32) bool { return a != nil && b != nil && *a < *b }
