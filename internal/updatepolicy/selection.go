package updatepolicy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/text"
)

// Selection is which policy of a namespace counts for which group. What it keeps grows with the number of
// policies and with that of groups, and not with their product, which a tenant can make as large as
// memory.
type Selection struct {
	policies policy.Set
	found    map[string]*findings
	clusters map[string]bool
	// kept are the entries of groups that a policy keeps, or may keep.
	kept []string
	// undecided are the groups that the guard keeps because it is not known which policy counts.
	undecided []policy.Group
	// mayGuard says that a policy of the namespace keeps machines. Otherwise the guard keeps none.
	mayGuard bool
	// tooMany says why nothing was compared; empty if everything was.
	tooMany string
}

// SelectAll compares each group of one namespace with its policies, once. It calls check before each
// group, and returns its error: a caller that is out of time ends there. Beyond policy.MaxComparisons
// it compares nothing.
func SelectAll(policies policy.Set, groups []State, check func() error) (*Selection, error) {
	s := &Selection{
		policies: policies, found: make(map[string]*findings, len(policies)), clusters: make(map[string]bool, len(groups)),
		mayGuard: policies.MayGuard(),
	}
	if n := policies.Comparisons(len(groups)); n > policy.MaxComparisons {
		s.tooMany = fmt.Sprintf("the namespace has too many policies and groups: %d policies and %d groups need %d comparisons, "+
			"at most %d are made, so the guard is asked about all Machines of the namespace. "+
			"Fix: merge policies, give them fewer targets and terms of selectors, or move Clusters to another namespace",
			len(policies), len(groups), n, policy.MaxComparisons)
	}
	for _, p := range policies {
		s.found[p.Policy.Name] = &findings{invalid: p.Invalid, tooMany: s.tooMany}
	}
	if s.tooMany != "" {
		return s, nil
	}
	sorted := slices.Clone(groups)
	slices.SortFunc(sorted, func(a, b State) int { return policy.Compare(a.Group, b.Group) })
	var candidates []*policy.Compiled
	for _, g := range sorted {
		if err := check(); err != nil {
			return nil, fmt.Errorf("finding out which UpdatePolicy counts for the %s: %w", g.Group, err)
		}
		candidates = policies.Candidates(g.Group, candidates[:0])
		s.add(g, candidates)
	}
	return s, nil
}

// add adds a group with its candidates, which it does not keep.
func (s *Selection) add(g State, candidates []*policy.Compiled) {
	s.clusters[g.Group.Cluster] = true
	selected, err := policy.Choose(candidates, g.Group)
	if err != nil || selected.Guarded {
		s.kept = append(s.kept, entryOf(g.Group))
	}
	if err != nil && s.mayGuard {
		s.undecided = append(s.undecided, g.Group)
	}
	if conflict, ok := errors.AsType[*policy.ConflictError](err); ok {
		for _, p := range candidates {
			s.found[p.Policy.Name].addConflict(conflict, p.Policy.Name, s.mayGuard)
		}
		return
	}
	if err != nil {
		s.addInvalid(g.Group, candidates)
		return
	}
	if selected.Name != "" {
		s.found[selected.Name].add(g, &selected)
	}
}

// addInvalid adds a group for which an invalid candidate may count. Each policy that selects the group
// may count instead, however precise it is, once the invalid ones are correct.
func (s *Selection) addInvalid(g policy.Group, candidates []*policy.Compiled) {
	if !s.mayGuard {
		return
	}
	invalid := text.Some{Most: maxInvalid}
	for _, c := range candidates {
		if c.Invalid != nil {
			invalid.Add(c.Invalid.Name)
		}
	}
	names := invalid.Join(", ")
	for _, p := range s.policies {
		if p.Selects(g) {
			s.found[p.Policy.Name].addInvalid(g, names)
		}
	}
}
