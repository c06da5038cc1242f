package rollouts

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/internal/pool"
)

// Group is a MachineDeployment, as far as its rollouts depend on it.
type Group struct {
	// Budget is what its strategy allows; maxSurge and maxUnavailable count only for RollingUpdate.
	Budget pool.Budget
	// OnDelete says that the strategy is OnDelete, UpdateOnDelete that its UpdatePolicy has the
	// Machines updated in place all the same.
	OnDelete, UpdateOnDelete bool
	// Keep says that no rollout may create or delete a Machine, Covered that updaters cover changes.
	Keep, Covered bool
	// Limits are those of its UpdatePolicy; nil if none count.
	Limits *pool.Limits
}

// MaxReplicas is how many Machines a Scenario of Represent has at most.
const MaxReplicas = 3

// Represent returns a small group whose rollouts follow the same rules as those of g. A limit of 0
// stays 0. A partition or batch of all Machines stays one of all. Other numbers become 1 or 2.
func Represent(g Group) Scenario {
	replicas := g.replicas()
	few := func(n, most int32) int8 { return int8(min(max(n, 0), most, replicas)) }
	s := Scenario{
		Replicas: int8(replicas), Keep: g.Keep,
		OnDelete: g.OnDelete && !g.UpdateOnDelete, UpdatesOnDelete: g.OnDelete && g.UpdateOnDelete,
	}
	s.Covered = g.Covered && !s.OnDelete // If people delete the Machines, no updater is asked.
	if g.Limits != nil && !s.OnDelete {
		s.Limits = g.limits(s.Replicas)
	}
	switch {
	case s.UpdatesOnDelete:
		// Such a group has no maxUnavailable. The maxInFlight of its policy takes the place.
		s.Unavailable = s.MaxInFlight
	case s.OnDelete:
	case g.Budget.Surge > 0 && !g.Keep:
		s.Surge, s.Unavailable = 1, few(g.Budget.Unavailable, 1)
	default:
		s.Surge = few(g.Budget.Surge, 1) // The rules for kept Machines must not use it.
		s.Unavailable = few(g.Budget.Unavailable, 2)
	}
	return s
}

// replicas returns how many Machines represent the group.
func (g *Group) replicas() int32 {
	n := min(max(g.Budget.Replicas, 1), MaxReplicas)
	if g.Budget.Surge > 0 && g.Budget.Unavailable > 0 && !g.Keep {
		return min(n, 2) // With 1 and 1, two Machines show what three do, in fewer states.
	}
	return n
}

// limits returns the limits for a group of fewer Machines.
func (g *Group) limits(replicas int8) Limits {
	share := func(of intstr.IntOrString) int8 {
		n := pool.Share(of, g.Budget.Replicas)
		if n > 0 && n >= g.Budget.Replicas {
			return replicas
		}
		return int8(min(n, 1))
	}
	l := Limits{
		MaxInFlight: min(int8(min(g.Limits.MaxInFlight, 2)), replicas),
		Canary:      min(share(g.Limits.Canary), 1), Partition: share(g.Limits.Partition),
	}
	if len(g.Limits.Batches) > 0 {
		l.Batch = max(share(g.Limits.Batches[0]), 1)
	}
	return l
}

// Study is one kind of disturbance that a rollout is explored with.
type Study struct {
	// Varies says to people what may happen, and how often.
	Varies   string
	Scenario Scenario
}

// Studies returns what the Machines of a group have to withstand; s has no Faults. A study combines
// its disturbances in every order and at every point. Studies are not combined.
func Studies(s Scenario) []Study {
	var all []Study
	// A known fault of such groups is not explored. See TestKnownGaps.
	gap := s.Covered && !s.Keep && s.Canary > 0 && s.Unavailable > 1
	scales := []int8{s.Replicas + 1, s.Replicas - 1}
	add := func(possible bool, varies string, f Faults) {
		if possible {
			s := s
			s.Faults, s.Scales = f, scales
			all = append(all, Study{Varies: varies, Scenario: s})
		}
	}
	add(true, "a crash, and an interruption between two writes", Faults{Crashes: 1, Races: 1})
	add(true, "a cache lags", Faults{Lags: 1})
	add(!s.Keep, "Cluster API's own engine takes over and gives way again", Faults{Swaps: 2})
	add(true, "a machine breaks", Faults{Breaks: 1})
	add(true, "a person deletes a machine", Faults{Deletes: 1})
	add(true, "people scale the group twice", Faults{Scales: 2})
	add(!gap, "the template changes again", Faults{Changes: 1})
	add(true, "the template is reverted", Faults{Reverts: 1})
	add(true, "a pause", Faults{Pauses: 1})
	add(s.Covered, "the updater is away, an update hangs, a retry",
		Faults{Outages: 1, Hangs: 1, Retries: 1})
	add(s.Limits != Limits{} && !s.UpdatesOnDelete,
		"the limits of the UpdatePolicy go and come back", Faults{Flips: 2})
	add(s.UpdatesOnDelete, "the UpdatePolicy goes and comes back", Faults{Flips: 2})
	return all
}
