//nolint:staticcheck // SA1019: clients of API v1beta1 read what is deprecated here
package pool

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// LegacyCounters are the counters of Cluster API's API v1beta1.
type LegacyCounters struct{ Updated, Ready, Available, Unavailable int32 }

// CountLegacy computes the counters of API v1beta1. nil MachineSets are skipped; newest is that of
// the current template.
func CountLegacy(sets []*clusterv1.MachineSet, newest *clusterv1.MachineSet) LegacyCounters {
	var c LegacyCounters
	var total int32
	for _, set := range sets {
		if set == nil {
			continue
		}
		total += deref(set.Spec.Replicas)
		if d := set.Status.Deprecated; d != nil && d.V1Beta1 != nil {
			c.Ready += d.V1Beta1.ReadyReplicas
			c.Available += d.V1Beta1.AvailableReplicas
		}
	}
	if newest != nil {
		c.Updated = deref(newest.Status.Replicas)
	}
	c.Unavailable = max(total-c.Available, 0)
	return c
}

// Into writes the counters to a status.
func (c LegacyCounters) Into(status *clusterv1.MachineDeploymentStatus) {
	if status.Deprecated == nil {
		status.Deprecated = &clusterv1.MachineDeploymentDeprecatedStatus{}
	}
	if status.Deprecated.V1Beta1 == nil {
		status.Deprecated.V1Beta1 = &clusterv1.MachineDeploymentV1Beta1DeprecatedStatus{}
	}
	legacy := status.Deprecated.V1Beta1
	legacy.UpdatedReplicas, legacy.ReadyReplicas = c.Updated, c.Ready
	legacy.AvailableReplicas, legacy.UnavailableReplicas = c.Available, c.Unavailable
}

// LegacyConditions are the conditions of API v1beta1, without transition times. newest is the
// MachineSet of the current template; nil if there is none. md has the counters of the new status.
func LegacyConditions(
	md *clusterv1.MachineDeployment,
	newest *clusterv1.MachineSet,
) []clusterv1.Condition {
	available := clusterv1.Condition{
		Type: clusterv1.MachineDeploymentAvailableV1Beta1Condition, Status: corev1.ConditionTrue,
	}
	var legacy int32
	if d := md.Status.Deprecated; d != nil && d.V1Beta1 != nil {
		legacy = d.V1Beta1.AvailableReplicas
	}
	if required := requiredAvailable(md); legacy < required {
		available.Status = corev1.ConditionFalse
		available.Severity = clusterv1.ConditionSeverityWarning
		available.Reason = clusterv1.WaitingForAvailableMachinesV1Beta1Reason
		available.Message = fmt.Sprintf(
			"Minimum availability requires %d replicas, current %d available",
			required,
			deref(md.Status.AvailableReplicas),
		)
	}
	return []clusterv1.Condition{available, legacyReady(newest)}
}

// legacyReady repeats the condition Ready of the new MachineSet.
func legacyReady(newest *clusterv1.MachineSet) clusterv1.Condition {
	ready := clusterv1.Condition{
		Type:     clusterv1.MachineSetReadyV1Beta1Condition,
		Status:   corev1.ConditionFalse,
		Severity: clusterv1.ConditionSeverityInfo,
		Reason:   clusterv1.WaitingForMachineSetFallbackV1Beta1Reason,
	}
	if newest == nil {
		ready.Message = "MachineSet not found"
		return ready
	}
	for _, c := range newest.GetV1Beta1Conditions() {
		if c.Type == clusterv1.ReadyV1Beta1Condition {
			c.Type = clusterv1.MachineSetReadyV1Beta1Condition
			return c
		}
	}
	return ready
}
