package status

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// Policy is which UpdatePolicy counts for a group.
type Policy struct {
	// Name is empty where none selects the group, so that machines are replaced.
	Name string `json:"name"`
	// Strategy is empty where Problem says why.
	Strategy v1alpha1.UpdateStrategy `json:"strategy"`
	// Fallback is empty where the strategy replaces machines anyway.
	Fallback v1alpha1.UpdateFallback `json:"fallback"`
	// MaxInFlight, MaxAttempts and Soak are the policy's bounds, with their defaults.
	MaxInFlight int     `json:"maxInFlight"`
	MaxAttempts int     `json:"maxAttempts"`
	Soak        Seconds `json:"soakSeconds"`
	// Limits are those of a rollout that windlass manager applies; nil if it does not drive the
	// Cluster, for control planes, and if people delete the machines.
	Limits *pool.LimitFields `json:"limits,omitempty"`
	// Problem says why the policy is unknown; empty otherwise.
	Problem string `json:"problem"`
}

// policyOf is the policy of a MachineDeployment.
func policyOf(f Facts, policies policy.Set, md *clusterv1.MachineDeployment) (Policy, policy.Policy) {
	p, selected := selectPolicy(policies, snapshot.MachineDeploymentGroup(f.Cluster, md))
	if f.Rollouts.Engine == v1alpha1.EngineManager && pool.LimitsOf(selected, md) != nil {
		p.Limits = new(pool.Limits(selected).Fields())
	}
	return p, selected
}

// selectPolicy returns the policy of a group, as a report has it and as it was selected.
func selectPolicy(
	policies policy.Set, g policy.Group,
) (Policy, policy.Policy) {
	selected, err := policies.Select(g)
	if err != nil {
		return Policy{Problem: err.Error()}, selected
	}
	p := Policy{
		Name: selected.Name, Strategy: v1alpha1.RollingUpdate,
		MaxInFlight: int(selected.MaxInFlight), MaxAttempts: selected.MaxAttempts, Soak: Seconds{selected.Soak},
	}
	if selected.InPlace {
		p.Strategy, p.Fallback = v1alpha1.ExternalUpdate, v1alpha1.FallbackNone
		if selected.FallbackReplace {
			p.Fallback = v1alpha1.FallbackRollingUpdate
		}
	}
	return p, selected
}
