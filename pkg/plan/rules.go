package plan

import (
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/pkg/version"
)

// StopRule makes groups of workers stop at versions at which they need not: a stop more can be wanted where a version
// brings a migration of its own. Stops that version skew or an update method needs are made as well.
//
// Where all workers share one list, the rules of all groups count for each group.
type StopRule struct {
	// Groups are names of Inventory.Groups. Where two rules hold a group, the first counts.
	Groups []string
	// EveryMinor demands a stop at every minor of the control plane's route, at the last version of each.
	EveryMinor bool
	// At demands stops at versions, or at the last version of minors. The zero Match is not allowed. A version must be on
	// the route of a control plane that is below it, except in the target's minor.
	At []Match
	// Reason is shown to people who meet the stop; it may be empty.
	Reason string
}

// allRules is the rule of a pool whose groups share their stops with all others.
const allRules = -1

// rulesByGroup returns the place of each group's rule, counted from 1.
func rulesByGroup(rules []StopRule) map[string]int {
	if len(rules) == 0 {
		return nil
	}
	places := map[string]int{}
	for i, rule := range rules {
		for _, group := range rule.Groups {
			if places[group] == 0 {
				places[group] = i + 1
			}
		}
	}
	return places
}

// usedRules returns the rules, those that no group has emptied.
func (f fleet) usedRules(rules []StopRule) []StopRule {
	if len(rules) == 0 {
		return nil
	}
	used := make([]StopRule, len(rules))
	for _, p := range f.pools {
		if p.rule > 0 {
			used[p.rule-1] = rules[p.rule-1]
		}
	}
	return used
}

// shareRules returns the pools with the rules of all of them.
func shareRules(pools []pool) []pool {
	shared := slices.Clone(pools)
	for i := range shared {
		shared[i].rule = allRules
	}
	return shared
}

// demands reports whether a rule makes a pool stop at a position, which is not the target: there all stop.
func (r route) demands(position int, p pool) (Reason, bool) {
	if p.rule == 0 || position == r.target() || !r.ahead(position, p.version) {
		return Reason{}, false
	}
	at := r.versions[position]
	// A rule about a minor is about its last version, and met by workers that have that minor already.
	enters := p.version.Minor().Before(at.Minor()) && at.Minor() != r.versions[position+1].Minor()
	for i, rule := range r.rules {
		if p.rule != allRules && p.rule != i+1 {
			continue
		}
		if reason, demanded := rule.demands(at, enters); demanded {
			return reason, true
		}
	}
	return Reason{}, false
}

// demands reports whether the rule is about a version, and which of its words. enters says that workers get to the
// version's minor with it, and that the control plane leaves that minor from it.
func (rule StopRule) demands(at version.Version, enters bool) (Reason, bool) {
	if rule.EveryMinor && enters {
		return Reason{Code: ReasonEveryMinor, Version: at, Detail: rule.Reason}, true
	}
	if slices.ContainsFunc(rule.At, func(m Match) bool { return m.Matches(at) && (enters || !m.version.IsZero()) }) {
		return Reason{Code: ReasonNamed, Version: at, Detail: rule.Reason}, true
	}
	return Reason{}, false
}

// checkNamed refuses a route that goes past a version at which a pool must stop: the stop would be skipped silently.
func checkNamed(r route, p pool) error {
	if p.rule == 0 {
		return nil
	}
	current, target := r.versions[0], r.versions[r.target()]
	for _, m := range r.rules[p.rule-1].At {
		v := m.version
		passed := !v.IsZero() && v.Minor().Before(target.Minor()) && version.Compare(v, current) == version.Greater
		if passed && version.Compare(v, p.version) == version.Greater && indexOf(r.versions, v) < 0 {
			return &Error{
				Rule: RuleNotOnRoute, Item: GroupItem(p.example), Version: v,
				Problem: "the upgrade graph makes this group stop there, and the control plane does not go through it",
				Fix:     fmt.Sprintf("name the minor %s in spec.workers, or block the other %s versions", v.Minor(), v.Minor()),
			}
		}
	}
	return nil
}
