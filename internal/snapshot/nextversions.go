package snapshot

import (
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// NextVersions are the versions to which a Cluster's machines go next. A zero version means that
// nothing is planned for them, or that it is not known.
type NextVersions struct {
	ControlPlane version.Version
	// Groups has the versions of MachineDeployments, by the name in the topology.
	Groups map[string]version.Version
}

// ComputeNextVersions reads the versions from the plan in the Cluster's status, which the engine
// that moves the Cluster follows. groups are Overrides.Groups; manager says that the engine is
// windlass manager, which moves each group by a plan of its own. MachinePools need not be among the
// objects. The error says that the plan does not lead to the target, such as right after the target
// has changed, or which field cannot be read.
func ComputeNextVersions(
	o Objects, groups []plan.Group, manager bool,
) (NextVersions, error) {
	s, err := Take(o, Overrides{Groups: groups})
	if err != nil || s.Assumed {
		return NextVersions{}, err
	}
	at := s.Inventory.ControlPlane
	recorded, err := RecordedPlan(o.Cluster, at)
	if err != nil {
		return NextVersions{}, err
	}
	route := append([]version.Version{at}, recorded.ControlPlane...)
	if end := route[len(route)-1]; !end.Equal(s.Target) {
		return NextVersions{}, fmt.Errorf("the upgrade plan in the Cluster's status leads to %s, "+
			"and not to the target %s", end, s.Target)
	}
	next := NextVersions{Groups: map[string]version.Version{}}
	switch {
	case !s.Moving.IsZero():
		next.ControlPlane = at
	case len(route) > 1:
		next.ControlPlane = route[1]
	}
	if len(recorded.Workers) == 0 {
		return next, nil
	}
	if manager {
		recorded = OwnStops(s.Inventory, s.Target, recorded)
	}
	return next, next.addGroups(s, recorded)
}

// addGroups adds the versions of groups.
func (n NextVersions) addGroups(s State, recorded plan.Response) error {
	stops, err := groupStops(s, recorded)
	if err != nil {
		return err
	}
	for _, g := range s.Inventory.Groups {
		if v, ok := nextStop(stops(g.Name), g.Version); ok && g.Kind == plan.MachineDeployment {
			n.Groups[g.Name] = v
		}
	}
	return nil
}

// groupStops returns the function that returns the stops of a group: those of the list that the
// groups share, or without one those of the group's own plan.
func groupStops(s State, recorded plan.Response) (func(name string) []version.Version, error) {
	if len(recorded.Workers) > 0 {
		return func(string) []version.Version { return recorded.Workers }, nil
	}
	computed, err := plan.Compute(plan.Request{
		Inventory: s.Inventory, Target: s.Target, Source: recorded,
		Policy: plan.Policy{Workers: plan.WorkersPerGroup},
	})
	return func(name string) []version.Version {
		named := func(g plan.GroupPlan) bool { return g.Name == name }
		i := slices.IndexFunc(computed.Groups, named)
		if i < 0 {
			return nil
		}
		return computed.Groups[i].Upgrades
	}, err
}

// nextStop returns the first of some stops that is newer than a version.
func nextStop(stops []version.Version, at version.Version) (version.Version, bool) {
	reached := slices.IndexFunc(stops, at.Equal)
	for _, v := range stops[reached+1:] {
		if reached >= 0 || version.Compare(at, v) == version.Less {
			return v, true
		}
	}
	return version.Version{}, false
}
