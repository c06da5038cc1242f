package updatepolicy

import (
	"slices"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard"
)

// MayGuard reports whether a policy keeps the machines of the groups that it counts for. A fallback that is not set, or unknown,
// counts as None.
func MayGuard(p *v1alpha1.UpdatePolicy) bool {
	return p.Spec.Strategy == v1alpha1.ExternalUpdate && p.Spec.Fallback != v1alpha1.FallbackRollingUpdate
}

// Kept returns the groups of one namespace whose Machines the guard may refuse to create or delete: those that a policy keeps, and
// those for which it is not known which policy counts. policies are all of that namespace, groups all that exist.
//
// Where no policy lets machines be replaced, a target without any selector keeps every group of the
// namespace, or of a Cluster. Then the Scope also includes the groups that do not exist yet, but no
// Cluster without groups: a policy reports none of those either, and a tenant may name any number
// of Clusters that do not exist.
func Kept(policies []v1alpha1.UpdatePolicy, groups []State) guard.Scope {
	mayGuard := func(p v1alpha1.UpdatePolicy) bool { return MayGuard(&p) }
	if !slices.ContainsFunc(policies, mayGuard) {
		return guard.Scope{}
	}
	var entries []string
	if !slices.ContainsFunc(policies, func(p v1alpha1.UpdatePolicy) bool { return !mayGuard(p) }) {
		clusters := make(map[string]bool, len(groups))
		for _, g := range groups {
			clusters[g.Group.Cluster] = true
		}
		entries = keptWhole(policies, clusters)
	}
	for _, g := range groups {
		if selected, err := Select(policies, g.Group); err != nil || selected.Guarded {
			entries = append(entries, g.Group.entry())
		}
	}
	return guard.NewScope(entries...)
}

// keptWhole returns entries for targets that select all groups of the namespace or of one of its
// Clusters.
func keptWhole(policies []v1alpha1.UpdatePolicy, clusters map[string]bool) []string {
	var entries []string
	for _, p := range policies {
		for _, t := range p.Spec.Targets {
			switch {
			case t.ControlPlane || len(t.MachineDeployments) > 0 || !isEmpty(t.Selector) || !isEmpty(t.ClusterSelector):
			case t.ClusterName == "":
				entries = append(entries, guard.NamespaceEntry(p.Namespace))
			case clusters[t.ClusterName]:
				entries = append(entries, guard.ClusterEntry(p.Namespace, t.ClusterName))
			}
		}
	}
	return entries
}

// entry returns how a guard.Scope names the group.
func (g Group) entry() string {
	if g.ControlPlane {
		return guard.ControlPlaneEntry(g.Namespace, g.Cluster)
	}
	return guard.MachineDeploymentEntry(g.Namespace, g.Cluster, g.Object)
}
