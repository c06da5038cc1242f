package pool

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Budget bounds a rollout, in Machines.
type Budget struct {
	// Replicas is spec.replicas of the MachineDeployment.
	Replicas int32
	// Surge is how many Machines may exist beyond Replicas: maxSurge, percentages rounded up. 0
	// unless the strategy is RollingUpdate.
	Surge int32
	// Unavailable is how many of Replicas may be unavailable: maxUnavailable, percentages rounded
	// down, at most Replicas. It is at least 1 if Surge is 0, because the rollout could not begin
	// otherwise. 0 unless the strategy is RollingUpdate.
	Unavailable int32
}

// MinAvailable is how many Machines must be available, at least 0.
func (b Budget) MinAvailable() int32 { return max(b.Replicas-b.Unavailable, 0) }

// BudgetOf returns the budget of a MachineDeployment. It returns an error if spec.replicas is nil,
// or if maxSurge or maxUnavailable is neither a number nor a percentage; Cluster API's webhook
// rejects those.
func BudgetOf(md *clusterv1.MachineDeployment) (Budget, error) {
	if md.Spec.Replicas == nil {
		return Budget{}, fmt.Errorf("spec.replicas of MachineDeployment %s is not set. Fix: set it",
			objectName(md.Namespace, md.Name))
	}
	b := Budget{Replicas: *md.Spec.Replicas}
	if !isRollingUpdate(md) {
		return b, nil
	}
	limits := md.Spec.Rollout.Strategy.RollingUpdate
	surge, err := intstr.GetScaledValueFromIntOrPercent(
		orZero(limits.MaxSurge),
		int(b.Replicas),
		true,
	)
	if err != nil {
		return b, fmt.Errorf("reading maxSurge of MachineDeployment %s: %w",
			objectName(md.Namespace, md.Name), err)
	}
	unavailable, err := intstr.GetScaledValueFromIntOrPercent(
		orZero(limits.MaxUnavailable), int(b.Replicas), false)
	if err != nil {
		return b, fmt.Errorf("reading maxUnavailable of MachineDeployment %s: %w",
			objectName(md.Namespace, md.Name), err)
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	b.Surge = int32(
		surge,
	) // #nosec G115 -- an int32, or a percentage of one
	b.Unavailable = min(int32(unavailable), b.Replicas) // #nosec G115 -- as above
	return b, nil
}

func isRollingUpdate(md *clusterv1.MachineDeployment) bool {
	return md.Spec.Rollout.Strategy.Type == clusterv1.RollingUpdateMachineDeploymentStrategyType
}

func isOnDelete(md *clusterv1.MachineDeployment) bool {
	return md.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType
}

// orZero returns limit, or 0 if it is not set. Cluster API's webhook sets defaults, so only objects
// that were made without it lack a limit.
func orZero(limit *intstr.IntOrString) *intstr.IntOrString {
	if limit == nil {
		return &intstr.IntOrString{}
	}
	return limit
}

func objectName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
