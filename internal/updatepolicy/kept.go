package updatepolicy

import (
	"slices"

	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/policy"
)

// Kept returns the groups of one namespace whose Machines the guard may refuse to create or delete: those that a policy keeps, and
// those for which it is not known which policy counts. policies are all of that namespace, groups all that exist.
//
// Where no policy lets machines be replaced, a target without any selector keeps every group of the
// namespace, or of a Cluster. Then the Scope also includes the groups that do not exist yet, but no
// Cluster without groups: a policy reports none of those either, and a tenant may name any number
// of Clusters that do not exist.
func Kept(policies policy.Set, groups []State) guard.Scope {
	if !policies.MayGuard() {
		return guard.Scope{}
	}
	var entries []string
	if !slices.ContainsFunc(policies, func(p *policy.Compiled) bool { return !p.Policy.Guarded }) {
		clusters := make(map[string]bool, len(groups))
		for _, g := range groups {
			clusters[g.Group.Cluster] = true
		}
		entries = keptWhole(policies, clusters)
	}
	var candidates []*policy.Compiled
	for _, g := range groups {
		candidates = policies.Candidates(g.Group, candidates[:0])
		if selected, err := policy.Choose(candidates, g.Group); err != nil || selected.Guarded {
			entries = append(entries, entryOf(g.Group))
		}
	}
	return guard.NewScope(entries...)
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
