package plan

import (
	"slices"

	"github.com/windlass-dev/windlass/pkg/version"
)

func (c *computation) controlPlaneVersions() []version.Version {
	if len(c.steps) == 0 {
		return nil
	}
	return slices.Clone(c.route.versions[1:])
}

func (c *computation) groupPlans() []GroupPlan {
	if len(c.fleet.groups) == 0 {
		return nil
	}
	plans := make([]GroupPlan, 0, len(c.fleet.groups))
	total := 0
	for _, pool := range c.fleet.poolOf {
		total += len(c.own[pool])
	}
	// All lists share one array, each with no room beyond its end.
	versions := make([]version.Version, 0, total)
	for i, g := range c.fleet.groups {
		p := GroupPlan{Name: g.Name, Kind: g.Kind, From: g.Version}
		if stops := c.own[c.fleet.poolOf[i]]; len(stops) > 0 {
			start := len(versions)
			for _, s := range stops {
				versions = append(versions, c.route.versions[s.position])
			}
			p.Upgrades = versions[start:len(versions):len(versions)]
		}
		plans = append(plans, p)
	}
	return plans
}

// operations interleaves: at each position first the control plane, then the groups that stop there.
func (c *computation) operations() ([]Operation, error) {
	s := sequencer{computation: c, operations: make([]Operation, 0, len(c.steps)+len(c.shared)), at: make([]version.Version, len(c.fleet.groups))}
	for i, g := range c.fleet.groups {
		s.at[i] = g.Version
	}
	switch {
	case c.forced || c.request.Policy.Workers == WorkersPerGroup:
		s.moveApart(c.own)
	case len(c.fleet.pools) == 1:
		// All groups make the same stops.
		s.moveApart([][]stop{c.shared})
	default:
		if err := s.moveTogether(); err != nil {
			return nil, err
		}
	}
	if len(s.operations) == 0 {
		return nil, nil
	}
	return s.operations, nil
}

// sequencer carries the inventory through a plan and writes down what happens.
type sequencer struct {
	*computation
	operations []Operation
	// at holds each group's version at this point.
	at []version.Version
	// now holds the pools that there are at this point, in members how many groups each has.
	now     []pool
	members []int
	// lastKind is the kind of the groups of the last operation.
	lastKind GroupKind
}

// upgradeControlPlane takes the control plane to a position.
func (s *sequencer) upgradeControlPlane(position int) {
	s.operations = append(s.operations, Operation{
		Kind: ControlPlaneUpgrade, From: s.route.versions[position-1], To: s.route.versions[position], Reason: s.steps[position-1].reason,
	})
}

// upgradeGroup takes a group to the control plane's position. Neighbours that do the same for the same reason share an
// operation; others do not, because operations stand in the order in which groups really move.
func (s *sequencer) upgradeGroup(group, position int, reason Reason) {
	g, from := s.fleet.groups[group], s.at[group]
	s.at[group] = s.route.versions[position]
	if n := len(s.operations); n > 0 && s.lastKind == g.Kind {
		if o := &s.operations[n-1]; o.Kind == WorkersUpgrade && o.From == from && o.To == s.at[group] && o.Reason == reason {
			o.Groups = append(o.Groups, g.Name)
			return
		}
	}
	s.lastKind = g.Kind
	s.operations = append(s.operations, Operation{Kind: WorkersUpgrade, Groups: []string{g.Name}, From: from, To: s.at[group], Reason: reason})
}

// moveApart follows the stops of each pool.
func (s *sequencer) moveApart(stops [][]stop) {
	for position := range s.route.versions {
		if position > 0 {
			s.upgradeControlPlane(position)
		}
		for group, pool := range s.fleet.poolOf {
			for _, stop := range stops[pool] {
				if stop.position == position {
					s.upgradeGroup(group, position, stop.reason)
				}
			}
		}
	}
}

// moveTogether follows the shared list as Cluster API does, which asks for the list again after every change. So when the
// groups that made a stop necessary have moved, the list for those that come after them may be a shorter one.
func (s *sequencer) moveTogether() error {
	for group := range s.at {
		s.count(group, 1)
	}
	stops, base := s.shared, 0
	for position := range s.route.versions {
		if position > 0 {
			s.upgradeControlPlane(position)
		}
		if len(stops) == 0 || base+stops[0].position != position {
			continue
		}
		rest, changed, err := s.stopTogether(position, stops[0].reason)
		if err != nil {
			return err
		}
		stops = stops[1:]
		if changed {
			stops, base = rest, position
		}
	}
	return nil
}

// stopTogether upgrades, in order, the groups below a position, until the list no longer has this stop. When it had to
// make the list anew, it returns what is left of that; its positions count from this one.
func (s *sequencer) stopTogether(position int, reason Reason) (rest []stop, changed bool, err error) {
	stale := false
	for group, at := range s.at {
		if !s.route.ahead(position, at) {
			continue
		}
		if stale {
			stops, err := s.remaining(position)
			if err != nil {
				return nil, false, err
			}
			if len(stops) == 0 || stops[0].position > 0 {
				return stops, true, nil
			}
			rest, changed = stops[1:], true
		}
		// While groups of the same pool are left, the list stays the same.
		stale = s.count(group, -1) == 0
		s.upgradeGroup(group, position, s.reasonOf(group, position, reason))
		s.count(group, 1)
	}
	return rest, changed, nil
}

// reasonOf returns why a group takes part in a stop: because it must, or only because all share their stops.
func (s *sequencer) reasonOf(group, position int, reason Reason) Reason {
	switch reason.Code { //nolint:exhaustive // The others hold for all groups alike.
	case ReasonSkew, ReasonTransition, ReasonEveryMinor, ReasonNamed:
	default:
		return reason
	}
	p := s.fleet.pools[s.fleet.poolOf[group]]
	p.version = s.at[group]
	if own, demanded := s.route.demands(position, p); demanded {
		return own
	}
	if own, broken := breaks(s.request.Policy.Skew, s.route.versions[position+1], p); broken {
		own.Version = reason.Version
		return own
	}
	reason.Code = ReasonShared
	return reason
}

// count adds a group to, or takes it from, the pool that it is in now, and returns how many groups that pool then has.
func (s *sequencer) count(group, change int) int {
	p := s.fleet.pools[s.fleet.poolOf[group]]
	p.version, p.example, p.rule = s.at[group], s.fleet.groups[group].Name, allRules
	at := indexOfPool(s.now, p)
	if at < 0 {
		at = len(s.now)
		s.now, s.members = append(s.now, p), append(s.members, 0)
	}
	s.members[at] += change
	return s.members[at]
}

// remaining computes the shared list anew, in the middle of a stop at a position; its stops count from there. The intent to
// finish the stop is recorded when the control plane steps to its version, so for a stop at the first position it is there only if it
// was before.
func (s *sequencer) remaining(position int) ([]stop, error) {
	pools := make([]pool, 0, len(s.now))
	for i, p := range s.now {
		if s.members[i] > 0 {
			pools = append(pools, p)
		}
	}
	return sharedStops(s.request.Policy.Skew, s.route.from(position), pools, position > 0 || s.request.Inventory.WorkersUpgrading)
}
