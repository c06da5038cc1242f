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

// NewBudget returns the budget of a rolling update whose maxSurge and maxUnavailable are numbers of
// Machines.
func NewBudget(replicas, surge, unavailable int32) Budget {
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return Budget{Replicas: replicas, Surge: surge, Unavailable: min(unavailable, replicas)}
}

// Resolve returns the budget of a rolling update. maxSurge and maxUnavailable are numbers or
// percentages of replicas; nil counts as 0, because only objects that were made without Cluster
// API's webhook lack them. It returns an error if one is neither.
func Resolve(replicas int32, maxSurge, maxUnavailable *intstr.IntOrString) (Budget, error) {
	surge, err := intstr.GetScaledValueFromIntOrPercent(orZero(maxSurge), int(replicas), true)
	if err != nil {
		return Budget{}, fmt.Errorf("reading maxSurge: %w", err)
	}
	unavailable, err := intstr.GetScaledValueFromIntOrPercent(
		orZero(maxUnavailable), int(replicas), false)
	if err != nil {
		return Budget{}, fmt.Errorf("reading maxUnavailable: %w", err)
	}
	// #nosec G115 -- an int32, or a percentage of one
	return NewBudget(replicas, int32(surge), int32(unavailable)), nil
}

// BudgetOf returns the budget of a MachineDeployment. It returns an error if spec.replicas is nil,
// or if maxSurge or maxUnavailable is neither a number nor a percentage; Cluster API's webhook
// rejects those.
func BudgetOf(md *clusterv1.MachineDeployment) (Budget, error) {
	name := objectName(md.Namespace, md.Name)
	if md.Spec.Replicas == nil {
		return Budget{}, fmt.Errorf(
			"spec.replicas of MachineDeployment %s is not set. Fix: set it", name)
	}
	if !isRollingUpdate(md) {
		return Budget{Replicas: *md.Spec.Replicas}, nil
	}
	limits := md.Spec.Rollout.Strategy.RollingUpdate
	b, err := Resolve(*md.Spec.Replicas, limits.MaxSurge, limits.MaxUnavailable)
	if err != nil {
		return b, fmt.Errorf("strategy of MachineDeployment %s: %w", name, err)
	}
	return b, nil
}

func isRollingUpdate(md *clusterv1.MachineDeployment) bool {
	return md.Spec.Rollout.Strategy.Type == clusterv1.RollingUpdateMachineDeploymentStrategyType
}

// IsOnDelete reports whether people delete the Machines of a group when its template changes.
func IsOnDelete(md *clusterv1.MachineDeployment) bool {
	return md.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType
}

// orZero returns limit, or 0 if it is not set.
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
