package policy

import (
	"cmp"
	"fmt"
	"strings"
)

// maxNamed bounds how many policies a ConflictError names.
const maxNamed = 4

// ConflictError says that several UpdatePolicies select a group with the same precision.
type ConflictError struct {
	Group Group
	// Policies are the names of the first of them, at least two, sorted; Count is how many there are.
	Policies []string
	Count    int
	by       precision
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("UpdatePolicies %s select the %s with the same precision (%s); let only one of them select it, or let one name it more precisely",
		quoteSome(e.Policies, e.Count), e.Group, e.by)
}

// Others says to the owner of the policy with this name, one of those in conflict, what else selects the group.
func (e *ConflictError) Others(name string) string {
	others := make([]string, 0, maxNamed)
	for _, other := range e.Policies {
		if other != name && len(others) < maxNamed-1 {
			others = append(others, other)
		}
	}
	return fmt.Sprintf("the %s is also selected by %s with the same precision (%s)", e.Group, quoteSome(others, e.Count-1), e.by)
}

// quoteSome quotes names, of which there are count in all.
func quoteSome(names []string, count int) string {
	quoted := make([]string, 0, len(names)+1)
	for _, n := range names {
		quoted = append(quoted, fmt.Sprintf("%q", n))
	}
	if more := count - len(names); more > 0 {
		quoted = append(quoted, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(quoted, ", ")
}

// Select returns the policy that counts for a group, or Default where none selects it. Policies of other namespaces do not
// count. The one that names the group most precisely counts: by its name, by its labels, or not at all; where that is equal,
// the one that names the cluster most precisely, in the same steps. A selector that is empty names nothing.
//
// The error is a *ConflictError where two are equally precise: nobody can know which was meant, and the wrong one may have
// machines replaced. It is an *InvalidError where a policy cannot be used that might be the one that counts, whatever its
// faulty selectors were meant to say.
func (s Set) Select(g Group) (Policy, error) { return Choose(s.Candidates(g, nil), g) }

// Candidates appends to into the policies that name a group most precisely, in the order of their names.
func (s Set) Candidates(g Group, into []*Compiled) []*Compiled {
	var best precision
	first := len(into)
	for _, c := range s {
		if c.namespace != g.Namespace {
			continue
		}
		by, ok := c.match(g)
		if !ok {
			continue
		}
		switch order := by.compare(best); {
		case len(into) == first || order > 0:
			best, into = by, append(into[:first], c)
		case order == 0:
			into = append(into, c)
		}
	}
	return into
}

// Choose returns what [Set.Select] does, for all Candidates of a group.
func Choose(candidates []*Compiled, g Group) (Policy, error) {
	if len(candidates) == 0 {
		return Default(), nil
	}
	for _, c := range candidates {
		if c.Invalid != nil {
			return Policy{}, c.Invalid
		}
	}
	if len(candidates) == 1 {
		return candidates[0].Policy, nil
	}
	conflict := &ConflictError{Group: g, Count: len(candidates)}
	for _, c := range candidates[:min(len(candidates), maxNamed)] {
		conflict.Policies = append(conflict.Policies, c.Policy.Name)
	}
	conflict.by, _ = candidates[0].match(g)
	return Policy{}, conflict
}

// precision is how precisely a target names a group, first by itself, then by its cluster.
type precision struct {
	group, cluster level
}

type level int

const (
	anyOne level = iota
	byLabels
	byName
)

func (p precision) compare(q precision) int {
	return cmp.Or(cmp.Compare(p.group, q.group), cmp.Compare(p.cluster, q.cluster))
}

func (p precision) String() string {
	var parts []string
	for _, part := range []struct {
		what string
		by   level
	}{{"group", p.group}, {"cluster", p.cluster}} {
		switch part.by {
		case byName:
			parts = append(parts, "by name of the "+part.what)
		case byLabels:
			parts = append(parts, "by labels of the "+part.what)
		case anyOne:
		}
	}
	if len(parts) == 0 {
		return "any group of the namespace"
	}
	return strings.Join(parts, " and ")
}

// match returns the precision of the most precise target that selects the group, and whether one does. A selector that
// cannot be used counts as one that matches: what was meant is not known.
func (c *Compiled) match(g Group) (best precision, ok bool) {
	for i := range c.targets {
		by, matches := c.targets[i].match(g)
		if matches && (!ok || by.compare(best) > 0) {
			best, ok = by, true
		}
	}
	return best, ok
}

// Selects reports whether the policy selects a group, or may: a selector that cannot be used counts as
// one that matches.
func (c *Compiled) Selects(g Group) bool {
	_, ok := c.match(g)
	return ok && c.namespace == g.Namespace
}

func (t *target) match(g Group) (by precision, ok bool) {
	if t.named {
		if !t.names(g) {
			return precision{}, false
		}
		by.group = byName
	}
	if !t.selector.SelectsAll() {
		if !t.selector.MayMatch(g.Labels) {
			return precision{}, false
		}
		by.group = max(by.group, byLabels)
	}
	if t.cluster != "" {
		if t.cluster != g.Cluster {
			return precision{}, false
		}
		by.cluster = byName
	}
	if !t.clusterSelector.SelectsAll() {
		if !t.clusterSelector.MayMatch(g.ClusterLabels) {
			return precision{}, false
		}
		by.cluster = max(by.cluster, byLabels)
	}
	return by, true
}

func (t *target) names(g Group) bool {
	if g.ControlPlane {
		return t.controlPlane
	}
	_, ok := t.deployments[g.Topology]
	return ok
}

// SelectsWhole calls found for each target that selects all groups of the namespace, with an empty
// name, or of one of its Clusters.
func (c *Compiled) SelectsWhole(found func(namespace, cluster string)) {
	for _, t := range c.targets {
		if !t.named && t.selector.SelectsAll() && t.clusterSelector.SelectsAll() {
			found(c.namespace, t.cluster)
		}
	}
}
