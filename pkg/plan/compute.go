package plan

import (
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Compute returns the shortest legal chain for a request, or an *Error that says what stands in the way and what would
// remove it. Plans never contain half a chain: either every operation up to the target is there, or none.
//
// A plan can be recomputed at any point of its own execution; what it gives is then the rest.
func Compute(r Request) (Plan, error) {
	c, err := compute(r)
	if err != nil {
		return Plan{}, err
	}
	operations, err := c.operations()
	if err != nil {
		return Plan{}, err
	}
	return Plan{
		ControlPlane: c.controlPlaneVersions(),
		Workers:      c.route.versionsAt(c.shared),
		Groups:       c.groupPlans(),
		Operations:   operations,
	}, nil
}

// computation holds the intermediate results that both Compute and Explain need.
type computation struct {
	request Request
	route   route
	steps   []controlPlaneStep
	fleet   fleet
	// shared are the stops of the list that all workers share; forced says that the list was given.
	shared []stop
	forced bool
	// own are the stops of each pool of the fleet by itself.
	own [][]stop
}

func compute(r Request) (*computation, error) {
	r = r.withDefaults()
	if err := checkTarget(r); err != nil {
		return nil, err
	}
	f, err := newFleet(r)
	if err != nil {
		return nil, err
	}
	c := &computation{request: r, fleet: f}
	if c.steps, err = r.Source.controlPlane(r.Inventory.ControlPlane, r.Target); err != nil {
		return nil, err
	}
	c.route = newRoute(r, c.steps, f)
	// Also what our own sources select is checked: a list that passes here is legal whoever made it.
	if err := checkRoute(c.route.versions, r.Target); err != nil {
		return nil, err
	}
	if err := checkPools(c.route, f); err != nil {
		return nil, err
	}
	if workers := r.Source.workers(); len(workers) > 0 {
		c.forced = true
		c.shared, c.own, err = forcedStops(r.Policy.Skew, c.route, f, workers)
		return c, err
	}
	if c.own, err = ownStops(r.Policy.Skew, c.route, f.pools); err != nil {
		return nil, err
	}
	if len(c.own) == 1 && !r.Inventory.WorkersUpgrading {
		c.shared = c.own[0]
		return c, nil
	}
	c.shared, err = sharedStops(r.Policy.Skew, c.route, f.pools, r.Inventory.WorkersUpgrading)
	return c, err
}

// checkPools checks what only the route tells of a group.
func checkPools(r route, f fleet) error {
	target := r.versions[r.target()]
	for _, p := range f.pools {
		if version.Compare(p.version, target) == version.Unordered && !r.ahead(r.target(), p.version) {
			return groupDowngradeError(p.example, p.version, target)
		}
		if err := checkNamed(r, p); err != nil {
			return err
		}
	}
	return nil
}

func checkTarget(r Request) error {
	current, target := r.Inventory.ControlPlane, r.Target
	switch {
	case current.IsZero():
		return &Error{Rule: RuleInventory, Item: ItemControlPlane, Problem: "the current version is missing", Fix: "say which version the control plane has"}
	case target.IsZero():
		return &Error{Rule: RuleInventory, Item: ItemTarget, Problem: "the target version is missing", Fix: "say which version to upgrade to"}
	case r.Policy.Workers != WorkersShared && r.Policy.Workers != WorkersPerGroup:
		return inventoryError("policy", fmt.Sprintf("workers cannot be planned %q", r.Policy.Workers), fmt.Sprintf("use %s or %s", WorkersShared, WorkersPerGroup))
	case version.Compare(target, current) == version.Less:
		return downgradeError(current, target, "it is older than")
	case target.Minor().Major != current.Minor().Major:
		return &Error{
			Rule: RuleMajor, Item: ItemTarget, Version: target,
			Problem: fmt.Sprintf("the control plane is at %s, and no upgrade between major versions is defined", current),
			Fix:     fmt.Sprintf("choose a v%d version", current.Minor().Major),
		}
	}
	return nil
}

// checkRoute checks what the control plane goes through, the current version first.
func checkRoute(versions []version.Version, target version.Version) error {
	for i := 1; i < len(versions); i++ {
		if err := checkControlPlaneStep(versions[:i], target, versions[i]); err != nil {
			return err
		}
	}
	if last := versions[len(versions)-1]; last != target {
		return &Error{
			Rule: RuleEndsAtTarget, Item: itemControlPlanes, Version: target,
			Problem: fmt.Sprintf("the list ends at %s, not at the target", last), Fix: fmt.Sprintf("let its last item be %s", target),
		}
	}
	return nil
}

// checkControlPlaneStep checks one version against all that come before it, the current one first. The direct predecessor is not
// enough: between builds without an order a list could lead back to one that it has passed.
func checkControlPlaneStep(passed []version.Version, target, v version.Version) error {
	previous := passed[len(passed)-1]
	for _, earlier := range slices.Backward(passed) {
		switch version.Compare(v, earlier) {
		case version.Less, version.Equal:
			return &Error{
				Rule: RuleOrder, Item: itemControlPlanes.at(len(passed) - 1), Version: v,
				Problem: fmt.Sprintf("it must be newer than %s, or another build of it", earlier),
				Fix:     "list the versions from old to new, each once, without the current one",
			}
		case version.Greater, version.Unordered:
		}
	}
	if version.Compare(v, target) == version.Greater {
		return &Error{
			Rule: RuleBeyondTarget, Item: itemControlPlanes.at(len(passed) - 1), Version: v,
			Problem: fmt.Sprintf("it is newer than the target %s", target), Fix: fmt.Sprintf("end the list at %s", target),
		}
	}
	if lag, ok := previous.Minor().Lag(v.Minor()); !ok || lag > 1 {
		return &Error{
			Rule: RuleMinorSkipped, Item: itemControlPlanes.at(len(passed) - 1), Version: v,
			Problem: fmt.Sprintf("the control plane moves one minor at a time and is at %s before it", previous),
			Fix:     fmt.Sprintf("put a %s version before it", previous.Minor().Next()),
		}
	}
	return nil
}

// route is what the control plane goes through.
type route struct {
	// versions has the current version first: position 0 is now, the last is the target.
	versions []version.Version
	// listed is where the versions come from, in an order that decides between builds that have none of their own.
	listed []version.Version
	// rules are those of the workers, in the places that pools name. One that no group has is empty.
	rules []StopRule
}

func newRoute(r Request, steps []controlPlaneStep, f fleet) route {
	versions := make([]version.Version, 0, len(steps)+1)
	versions = append(versions, r.Inventory.ControlPlane)
	for _, s := range steps {
		versions = append(versions, s.version)
	}
	return route{versions: versions, listed: r.Source.listed(), rules: f.usedRules(r.Source.stops())}
}

// from returns the rest of the route.
func (r route) from(position int) route {
	r.versions = r.versions[position:]
	return r
}

// target is the route's last position.
func (r route) target() int { return len(r.versions) - 1 }

// ahead reports whether position p is an upgrade for workers at v. Builds that have no order of
// their own are ordered by the route, or else by where its versions come from. One that neither
// contains is older, because workers follow the control plane.
func (r route) ahead(p int, v version.Version) bool {
	switch version.Compare(v, r.versions[p]) {
	case version.Less:
		return true
	case version.Unordered:
		at := indexOf(r.versions, v)
		listedV, listedP := indexOf(r.listed, v), indexOf(r.listed, r.versions[p])
		if at < 0 && listedV >= 0 && listedP >= 0 {
			return listedV < listedP
		}
		return at < p
	case version.Equal, version.Greater:
		return false
	default:
		return false
	}
}

// versionsAt returns the versions at the stops' positions.
func (r route) versionsAt(stops []stop) []version.Version {
	if len(stops) == 0 {
		return nil
	}
	versions := make([]version.Version, 0, len(stops))
	for _, s := range stops {
		versions = append(versions, r.versions[s.position])
	}
	return versions
}
