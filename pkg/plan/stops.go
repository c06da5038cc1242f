package plan

import (
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/pkg/version"
)

// stop is a position of the route at which workers are upgraded, and why not later.
type stop struct {
	position int
	reason   Reason
}

// ownStops computes the fewest stops of each pool by itself.
func ownStops(skew version.SkewPolicy, r route, pools []pool) ([][]stop, error) {
	if len(pools) == 0 {
		return nil, nil
	}
	own := make([][]stop, len(pools))
	for i := range pools {
		stops, err := inferStops(skew, r, pools[i:i+1])
		if err != nil {
			return nil, err
		}
		own[i] = stops
	}
	return own, nil
}

// sharedStops computes the fewest stops for all pools together. When workers have begun to go to the control plane's
// present version, finishing that stop is preferred, but not if leaving it out takes fewer stops.
func sharedStops(skew version.SkewPolicy, r route, pools []pool, begun bool) ([]stop, error) {
	pools = shareRules(pools)
	stops, err := inferStops(skew, r, pools)
	if err != nil || !begun || r.target() == 0 || len(stops) == 0 || stops[0].position == 0 {
		return stops, err
	}
	moved := slices.Clone(pools)
	if !advance(r, 0, moved) {
		return stops, nil
	}
	rest, err := inferStops(skew, r, moved)
	if err != nil {
		return nil, err
	}
	if len(rest)+1 > len(stops) {
		return stops, nil
	}
	return append([]stop{{reason: Reason{Code: ReasonBegun, Version: r.versions[0]}}}, rest...), nil
}

// advance sends all pools that are below a position there, and reports whether there were any.
func advance(r route, position int, pools []pool) (moved bool) {
	for i := range pools {
		if r.ahead(position, pools[i].version) {
			pools[i].version, moved = r.versions[position], true
		}
	}
	return moved
}

// inferStops puts every stop as late as it can be: at the last position before some pool would break a rule, or where a
// StopRule demands one. All pools below a stop go there. Later is never worse, because from a later position every following deadline is later too; so
// this greedy choice gives the fewest stops.
func inferStops(skew version.SkewPolicy, r route, pools []pool) ([]stop, error) {
	var few [4]pool
	moving := append(few[:0], pools...)
	var stops []stop
	from := 0
	for {
		next, pending := stop{position: r.target(), reason: Reason{Code: ReasonTarget, Version: r.versions[r.target()]}}, false
		for _, p := range moving {
			if !r.ahead(r.target(), p.version) {
				continue
			}
			pending = true
			s, err := deadline(skew, r, p, from)
			if err != nil {
				return nil, err
			}
			if s.position < next.position {
				next = s
			}
		}
		if !pending {
			return stops, nil
		}
		if stops == nil {
			stops = make([]stop, 0, 4)
		}
		stops = append(stops, next)
		advance(r, next.position, moving)
		from = next.position
	}
}

// deadline returns the last position at which a pool can still be upgraded, when the control plane is at position from,
// or the first at which its StopRule demands it, or the target when nothing forces it to move earlier. The error says that
// it cannot move in time.
func deadline(skew version.SkewPolicy, r route, p pool, from int) (stop, error) {
	for next := from; next < len(r.versions); next++ {
		reason, broken := breaks(skew, r.versions[next], p)
		if !broken {
			if reason, demanded := r.demands(next, p); demanded {
				return stop{position: next, reason: reason}, nil
			}
			continue
		}
		if last := next - 1; last >= from && r.ahead(last, p.version) {
			reason.Version = r.versions[last]
			return stop{position: last, reason: reason}, nil
		}
		return stop{}, stuckError(p, r.versions[next], reason)
	}
	return stop{position: r.target(), reason: Reason{Code: ReasonTarget, Version: r.versions[r.target()]}}, nil
}

// breaks reports whether a pool that stays where it is breaks a rule once the control plane is at next: its kubelets lag
// too far, or its update method cannot reach that version, nor any later one, in one jump.
func breaks(skew version.SkewPolicy, next version.Version, p pool) (Reason, bool) {
	kubelet := p.version.Minor()
	lag, ok := kubelet.Lag(next.Minor())
	if !ok {
		// The pool is a patch ahead of the control plane; the fleet's check refused newer minors.
		return Reason{}, false
	}
	if limit := skew.MaxLag(kubelet, next.Minor()); lag > limit {
		return Reason{Code: ReasonSkew, Leaves: kubelet, Before: next.Minor(), Limit: limit}, true
	}
	if p.limit > 0 && lag > p.limit {
		return Reason{Code: ReasonTransition, Leaves: kubelet, Before: next.Minor(), Limit: p.limit}, true
	}
	return Reason{}, false
}

func stuckError(p pool, next version.Version, reason Reason) error {
	e := &Error{
		Rule: RuleSkew, Item: GroupItem(p.example), Version: p.version,
		Problem: fmt.Sprintf("no upgrade is possible before the control plane reaches %s, and then kubelet may lag only %s", next, minors(reason.Limit)),
		Fix:     "choose a skew policy that lets kubelets lag at least 1 minor",
	}
	if reason.Code == ReasonTransition {
		e.Rule = RuleTransition
		e.Problem = fmt.Sprintf("the control plane is at %s already, and this group can move %s at a time in place", next, minors(reason.Limit))
		e.Fix = "let this group's machines be replaced, or upgrade it to within reach of the control plane first"
	}
	return e
}

// forcedStops turns an explicit workers list into stops and checks that it is legal for every pool.
func forcedStops(skew version.SkewPolicy, r route, f fleet, workers []version.Version) (shared []stop, own [][]stop, err error) {
	if shared, err = checkWorkers(r, f, workers); err != nil {
		return nil, nil, err
	}
	own = make([][]stop, len(f.pools))
	for i, p := range f.pools {
		for index, s := range shared {
			if !r.ahead(s.position, p.version) {
				continue
			}
			if err := checkReach(skew, r, p, s, index); err != nil {
				return nil, nil, err
			}
			own[i] = append(own[i], s)
			p.version = r.versions[s.position]
		}
	}
	return shared, own, nil
}

// checkReach checks that a pool may stay where it is until a stop of the list, and can jump there.
func checkReach(skew version.SkewPolicy, r route, p pool, s stop, index int) error {
	for position := range s.position + 1 {
		reason, broken := breaks(skew, r.versions[position], p)
		if !broken {
			continue
		}
		e := &Error{
			Rule: RuleSkew, Item: itemWorkers.at(index), Version: r.versions[s.position],
			Problem: fmt.Sprintf("%s are at %s before it, and %s", describePool(p), p.version, reason.Message()),
			Fix:     fmt.Sprintf("put a version newer than %s and older than %s before it", p.version.Minor(), reason.Before),
		}
		if reason.Code == ReasonTransition {
			e.Rule = RuleTransition
		}
		return e
	}
	return nil
}

func describePool(p pool) string { return fmt.Sprintf("workers such as %q", p.example) }

// checkWorkers checks the rules that a list must obey whatever the groups' limits are, and finds its positions.
func checkWorkers(r route, f fleet, workers []version.Version) ([]stop, error) {
	target := r.versions[r.target()]
	if !slices.ContainsFunc(f.pools, func(p pool) bool { return r.ahead(r.target(), p.version) }) {
		return nil, &Error{
			Rule: RuleAtTarget, Item: itemWorkers, Version: workers[0],
			Problem: fmt.Sprintf("there are no workers, or all are at the target %s already", target), Fix: "leave the list empty",
		}
	}
	stops := make([]stop, 0, len(workers))
	moving := slices.Clone(f.pools)
	for i, v := range workers {
		position := indexOf(r.versions, v)
		if err := checkWorkersItem(r, v, position, i); err != nil {
			return nil, err
		}
		if !advance(r, position, moving) {
			return nil, &Error{
				Rule: RuleOrder, Item: itemWorkers.at(i), Version: v,
				Problem: "no workers are behind it when it is their turn",
				Fix:     "list the versions from old to new, builds in the order of controlPlaneUpgrades, without the workers' current one",
			}
		}
		stops = append(stops, stop{position: position, reason: listedReason(v, target)})
	}
	if last := workers[len(workers)-1]; last != target {
		return nil, &Error{
			Rule: RuleEndsAtTarget, Item: itemWorkers, Version: target,
			Problem: fmt.Sprintf("the list ends at %s, not at the target", last), Fix: fmt.Sprintf("let its last item be %s", target),
		}
	}
	return stops, nil
}

func checkWorkersItem(r route, v version.Version, position, index int) error {
	item, target := itemWorkers.at(index), r.versions[r.target()]
	switch {
	case version.Compare(v, target) == version.Greater:
		return &Error{
			Rule: RuleBeyondTarget, Item: item, Version: v,
			Problem: fmt.Sprintf("it is newer than the target %s", target), Fix: fmt.Sprintf("end the list at %s", target),
		}
	case position < 0:
		return &Error{
			Rule: RuleNotOnRoute, Item: item, Version: v,
			Problem: "the control plane does not have this version now and does not go through it",
			Fix:     fmt.Sprintf("use %s or one of controlPlaneUpgrades", r.versions[0]),
		}
	}
	return nil
}
