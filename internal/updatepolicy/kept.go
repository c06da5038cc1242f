package updatepolicy

import (
	"slices"

	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/policy"
)

// Kept returns the groups of the namespace whose Machines the guard may refuse to create or delete: those
// that a policy keeps, and those for which it is not known which policy counts. It is the whole
// namespace where there are too many to compare.
//
// Where no policy lets machines be replaced, a target without any selector keeps every group of the
// namespace, or of a Cluster. Then the Scope also includes the groups that do not exist yet, but no
// Cluster without groups: a policy reports none of those either, and a tenant may name any number
// of Clusters that do not exist.
func (s *Selection) Kept() guard.Scope {
	if !s.mayGuard {
		return guard.Scope{}
	}
	if s.tooMany != "" {
		return guard.NewScope(guard.NamespaceEntry(s.policies.Namespace()))
	}
	var entries []string
	if !slices.ContainsFunc(s.policies, func(p *policy.Compiled) bool { return !p.Policy.Guarded }) {
		entries = keptWhole(s.policies, s.clusters)
	}
	return guard.NewScope(append(entries, s.kept...)...)
}

// keptWhole returns entries for targets that select all groups of the namespace or of one of its
// Clusters.
func keptWhole(policies policy.Set, clusters map[string]bool) []string {
	var entries []string
	for _, p := range policies {
		p.SelectsWhole(func(namespace, cluster string) {
			switch {
			case cluster == "":
				entries = append(entries, guard.NamespaceEntry(namespace))
			case clusters[cluster]:
				entries = append(entries, guard.ClusterEntry(namespace, cluster))
			}
		})
	}
	return entries
}

// entryOf returns how a guard.Scope names the group.
func entryOf(g policy.Group) string {
	if g.ControlPlane {
		return guard.ControlPlaneEntry(g.Namespace, g.Cluster)
	}
	return guard.MachineDeploymentEntry(g.Namespace, g.Cluster, g.Object)
}
