package updatepolicy

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// Selected is the policy that counts for a group.
type Selected struct {
	// Name is the name of the UpdatePolicy; empty for the default.
	Name string
	// InPlace says that updaters change running machines, where they cover the change.
	InPlace bool
	// FallbackReplace says that machines are replaced where updaters do not cover the change.
	FallbackReplace bool
	// Guarded says that nothing but a person may have machines replaced: InPlace without FallbackReplace.
	Guarded bool
	Policy  inplace.Policy
	// Limits bound the rollouts of a MachineDeployment. They count only if Name is not empty.
	Limits pool.Limits
	// UpdateOnDelete says that groups with the strategy OnDelete are updated in place.
	UpdateOnDelete bool
	// HandOver says that an updater is handed all machines of a MachineDeployment at once, in windlass manager.
	HandOver bool
	// Ignore are the fields that need not be applied to a running machine, sorted.
	Ignore []cover.Ignore
	// Generation is the UpdatePolicy's.
	Generation int64
}

// Default returns the policy of groups that no UpdatePolicy selects; see [policy.Default].
func Default() Selected { return Selected{FallbackReplace: true, Policy: inPlace(policy.Default())} }

// Keeps reports whether no rollout of windlass manager may create or delete a Machine of a group: as the
// policy says, and if it has a group with the strategy OnDelete updated in place.
func (s Selected) Keeps(md *clusterv1.MachineDeployment) bool {
	return s.Guarded || s.UpdateOnDelete && pool.IsOnDelete(md)
}

// Limited reports whether windlass manager applies the Limits to a group: a policy selects it, and
// people do not delete its Machines.
func (s Selected) Limited(md *clusterv1.MachineDeployment) bool {
	return s.Name != "" && (!pool.IsOnDelete(md) || s.UpdateOnDelete)
}

// Select is [policy.Set.Select].
func Select(policies policy.Set, g policy.Group) (Selected, error) {
	p, err := policies.Select(g)
	if err != nil {
		return Selected{}, err
	}
	return translate(p), nil
}

// translate tells apart what updates in place and what rollouts read.
func translate(p policy.Policy) Selected {
	s := Selected{
		Name: p.Name, Generation: p.Generation, InPlace: p.InPlace, FallbackReplace: p.FallbackReplace, Guarded: p.Guarded,
		UpdateOnDelete: p.UpdateOnDelete, HandOver: p.HandOver, Policy: inPlace(p),
	}
	if p.Name != "" {
		s.Limits = Limits(p)
	}
	for _, i := range p.Ignore {
		s.Ignore = append(s.Ignore, cover.Ignore{Part: cover.Part(i.Object), Path: i.Path})
	}
	return s
}

func inPlace(p policy.Policy) inplace.Policy {
	return inplace.Policy{
		MaxInFlight: int(p.MaxInFlight), Canary: p.Alone, Drain: p.Drain, Soak: p.Soak,
		MaxAttempts: p.MaxAttempts, AttemptTimeout: p.AttemptTimeout, Remediate: p.Remediate,
	}
}

// Limits returns what bounds the rollouts of a MachineDeployment.
func Limits(p policy.Policy) pool.Limits {
	return pool.Limits{
		MaxInFlight: p.MaxInFlight, Canary: p.Canary, Batches: p.Batches, Partition: p.Partition, Soak: p.Soak,
		MaxFailures: p.MaxFailures, MachineDeadline: p.MachineDeadline, GroupDeadline: p.GroupDeadline, Order: pool.Order(p.Order),
	}
}
