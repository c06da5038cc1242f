package policy

import (
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/labelselector"
)

// Compiled is one UpdatePolicy, parsed and checked: what it asks for, and what it selects. It is never
// changed after it was made, so it is shared and not copied.
type Compiled struct {
	// Policy is what a valid UpdatePolicy asks for. Of one that is not, only Guarded counts.
	Policy Policy
	// Invalid says why the policy cannot be used; nil if it can.
	Invalid *InvalidError

	namespace string
	targets   []target
	// terms is how much a comparison with one group costs at most: 1 for each target, and 1 for each
	// term of its selectors.
	terms int
}

// target is one of a policy's targets.
type target struct {
	// named says that the target names groups: controlPlane, and the MachineDeployments.
	named, controlPlane bool
	deployments         map[string]struct{}
	selector            labelselector.Selector
	cluster             string
	clusterSelector     labelselector.Selector
}

// Compile parses a policy. It keeps parts of p, which nobody may change any more, and changes nothing.
func Compile(p *v1alpha1.UpdatePolicy) *Compiled {
	c := &Compiled{namespace: p.Namespace, targets: make([]target, 0, len(p.Spec.Targets))}
	for i := range p.Spec.Targets {
		t := compileTarget(&p.Spec.Targets[i])
		c.targets, c.terms = append(c.targets, t), c.terms+1+t.selector.Terms()+t.clusterSelector.Terms()
	}
	last := labelselector.Parse(p.Spec.Order.Last)
	c.Policy, c.Invalid = translate(p, last), c.check(p, last)
	return c
}

func compileTarget(t *v1alpha1.UpdateTarget) target {
	compiled := target{
		named: t.ControlPlane || len(t.MachineDeployments) > 0, controlPlane: t.ControlPlane,
		selector: labelselector.Parse(t.Selector),
		cluster:  t.ClusterName, clusterSelector: labelselector.Parse(t.ClusterSelector),
	}
	if len(t.MachineDeployments) > 0 {
		compiled.deployments = make(map[string]struct{}, len(t.MachineDeployments))
		for _, name := range t.MachineDeployments {
			compiled.deployments[string(name)] = struct{}{}
		}
	}
	return compiled
}

// Set is policies in the order of their names.
type Set []*Compiled

// CompileAll is [Store.Compile] of a new Store: nothing is kept for the next call.
func CompileAll(policies []v1alpha1.UpdatePolicy) Set { return new(Store).Compile("", policies) }

// MaxComparisons is how many terms of the policies of a namespace are compared with its groups at most:
// the terms of all policies, times the groups. A target is a term, and so is each label and expression
// of its selectors. 200 policies with two targets of four terms each, and 5,000 groups, need just it.
const MaxComparisons = 10_000_000

// Comparisons returns how many terms are compared where each of so many groups is compared with all
// policies.
func (s Set) Comparisons(groups int) int {
	terms := 0
	for _, c := range s {
		terms += c.terms
	}
	return terms * groups
}

// MayGuard reports whether any policy keeps machines of the groups that it counts for.
func (s Set) MayGuard() bool {
	return slices.ContainsFunc(s, func(c *Compiled) bool { return c.Policy.Guarded })
}

// Namespace returns the namespace that all policies have. There must be at least one.
func (s Set) Namespace() string { return s[0].namespace }

// Named returns the first policy of a name, alone; none if no policy has it.
func (s Set) Named(name string) Set {
	for i, c := range s {
		if c.Policy.Name == name {
			return s[i : i+1]
		}
	}
	return nil
}

// Store keeps the compiled policies of all namespaces, each once for its version. It is safe for
// concurrent use. The zero value is ready; a nil one keeps nothing.
type Store keyed.Versions[*Compiled]

// Compile returns the policies of a namespace, compiled. policies are all that the namespace has; what
// was kept of others is dropped. It changes none of them and keeps parts of them.
func (s *Store) Compile(namespace string, policies []v1alpha1.UpdatePolicy) Set {
	versions := (*keyed.Versions[*Compiled])(s)
	set := Set(versions.Compute(namespace, len(policies), func(i int) (string, keyed.Version) {
		p := &policies[i]
		return p.Name, keyed.VersionOf(p)
	}, func(i int) *Compiled { return Compile(&policies[i]) }))
	slices.SortStableFunc(set, func(a, b *Compiled) int { return strings.Compare(a.Policy.Name, b.Policy.Name) })
	return set
}
