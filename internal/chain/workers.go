package chain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// moves are the groups that must go to the control plane's version before it takes its next step: their own plans stop there. Groups
// that are on their way somewhere are not among them, they finish first.
func (d *decider) moves() []Group {
	var moves []Group
	for _, g := range d.s.Groups {
		if stops := d.stops(g); len(stops) > 0 && stops[0].Equal(d.s.ControlPlane.Version) && !g.Upgrading {
			moves = append(moves, g)
		}
	}
	return moves
}

// stops is the rest of a group's own plan; none for a group that does not exist, or goes.
func (d *decider) stops(g Group) []version.Version {
	return d.upgrades[g.Name]
}

// stopsAt reports whether some group's plan has a stop at v. Before a step to v that is the first stop of those that have one.
func (d *decider) stopsAt(v version.Version) bool {
	return slices.ContainsFunc(d.plan.Groups, func(p plan.GroupPlan) bool { return slices.ContainsFunc(p.Upgrades, v.Equal) })
}

// leftBehind are the groups on their way out whose machines may not run beside a control plane at v.
func (d *decider) leftBehind(v version.Version) []Group {
	skew := d.s.Skew
	if skew.Farthest() == 0 {
		skew = version.KubernetesSkew()
	}
	deleting := slices.DeleteFunc(slices.Clone(d.s.Groups), func(g Group) bool { return !g.Exists || !g.Deleting })
	return slices.DeleteFunc(append(deleting, d.s.Leaving...), func(g Group) bool { return skew.Allows(g.Oldest.Minor(), v.Minor()) })
}

// selectTurn selects which of the groups that must move begin now: in order, as many of one kind as may be upgrading at once, and MachinePools
// only when no MachineDeployment moves or could. A deferred group is passed over; at a held one the sequence ends.
func (d *decider) selectTurn(moves []Group) []Group {
	var turn []Group
	free, due := d.movable(), setOf(moves)
	for _, kind := range []plan.GroupKind{plan.MachineDeployment, plan.MachinePool} {
		moving := d.s.moving(kind)
		slots := max(d.s.Concurrency, 1) - moving
		waiting := 0
		for _, g := range d.s.kind(kind) {
			if !free.has(g) || !due.has(g) {
				continue
			}
			if waiting++; waiting <= slots {
				turn = append(turn, g)
			}
		}
		if moving+waiting > 0 {
			break
		}
	}
	return turn
}

// groupSet is a set of groups by their names. Clusters may have thousands.
type groupSet map[string]struct{}

func setOf(groups []Group) groupSet {
	s := make(groupSet, len(groups))
	for _, g := range groups {
		s[g.Name] = struct{}{}
	}
	return s
}

func (s groupSet) has(g Group) bool {
	_, ok := s[g.Name]
	return ok
}

func (d *decider) raiseWorkers(turn []Group) Decision {
	to := d.s.ControlPlane.Version
	action := RaiseWorkers{To: to}
	for _, g := range turn {
		action.Groups = append(action.Groups, g.Name)
	}
	decision := d.decide(action, WorkersStep, "%s to %s", names(turn), to)
	begin := setOf(turn)
	for i, g := range d.s.Groups {
		if begin.has(g) {
			decision.Objects.Groups[i] = Object{Name: g.Name, Kind: g.Kind, Version: to}
			decision.Groups[i].Position, decision.Groups[i].Version = Moving, to
		}
	}
	return decision
}

// controlPlaneAsIs leaves the control plane at its version. While that is not the target it gets no other change either.
func (d *decider) controlPlaneAsIs() Object {
	cp := d.s.ControlPlane
	if !cp.Exists {
		return Object{Version: d.s.Target}
	}
	return Object{Version: cp.Version, Hold: !cp.Version.Equal(d.s.Target)}
}

// groupsAsAre leaves groups at their versions. One that does not exist is created at the target, as soon as the control plane is there: created
// earlier it would have to be upgraded at once, and machines would join a control plane that changes.
func (d *decider) groupsAsAre() []Object {
	objects := make([]Object, len(d.s.Groups))
	for i, g := range d.s.Groups {
		objects[i] = Object{Name: g.Name, Kind: g.Kind, Version: g.Version, Hold: !g.Version.Equal(d.s.Target)}
		if !g.Exists {
			objects[i] = Object{Name: g.Name, Kind: g.Kind, Version: d.s.Target, Hold: !d.mayCreate()}
		}
	}
	return objects
}

func (d *decider) mayCreate() bool {
	cp := d.s.ControlPlane
	return !cp.Exists || cp.Version.Equal(d.s.Target) && !cp.Upgrading &&
		!d.s.Pending.Has(AfterControlPlaneUpgrade) && !d.s.Pending.Has(BeforeWorkersUpgrade)
}

func (d *decider) groupStatus() []GroupStatus {
	status := make([]GroupStatus, len(d.s.Groups))
	due, movable := setOf(d.moves()), d.movable()
	for i, g := range d.s.Groups {
		status[i] = GroupStatus{Name: g.Name, Kind: g.Kind, Version: g.Version, Upgrades: d.stops(g)}
		switch {
		case g.Deleting:
			status[i].Position = Leaving
		case !g.Exists:
			status[i].Position = ToCreate
		case g.Upgrading:
			status[i].Position = Moving
		case due.has(g) && !movable.has(g):
			status[i].Position = Deferred
		case g.Version.Equal(d.s.Target):
			status[i].Position = Done
		default:
			status[i].Position = Waiting
		}
	}
	return status
}

// movable are the groups that no annotation keeps back: a deferred group is passed over, at a held one the sequence ends.
func (d *decider) movable() groupSet {
	free := make(groupSet, len(d.s.Groups))
	for _, g := range d.s.Groups {
		if g.Hold {
			break
		}
		if !g.Defer {
			free[g.Name] = struct{}{}
		}
	}
	return free
}

// upgradingMessage names the groups that move, by the version that they go to.
func (d *decider) upgradingMessage() string {
	var versions []version.Version
	moving := map[version.Version][]Group{}
	for _, g := range d.s.Groups {
		if !g.moves() {
			continue
		}
		if moving[g.Version] == nil {
			versions = append(versions, g.Version)
		}
		moving[g.Version] = append(moving[g.Version], g)
	}
	parts := make([]string, len(versions))
	for i, v := range versions {
		parts[i] = fmt.Sprintf("%s to %s", names(moving[v]), v)
	}
	return strings.Join(parts, "; ")
}

// shortMessage says how many machines the groups lack that hold the control plane.
func (d *decider) shortMessage() string {
	short := d.s.short()
	missing, before := int32(0), int32(0)
	for _, g := range short {
		missing += g.Missing
		before += d.s.lackedBefore(g)
	}
	return fmt.Sprintf("%s at %s until the machines have joined (missing: %d, before this step: %d)",
		names(short), d.s.ControlPlane.Version, missing, before)
}

// shown is how many groups a message names.
const shown = 3

// names lists groups of one or two kinds the way messages do: in order, and not more than a few.
func names(groups []Group) string {
	var parts []string
	for _, kind := range []plan.GroupKind{plan.MachineDeployment, plan.MachinePool} {
		var list []string
		for _, g := range groups {
			if g.Kind == kind {
				list = append(list, g.Name)
			}
		}
		if len(list) > 0 {
			parts = append(parts, NameList(kind, list))
		}
	}
	return strings.Join(parts, " and ")
}

// NameList names groups of one kind: all of a few, the first of many.
func NameList(kind plan.GroupKind, list []string) string {
	switch {
	case len(list) == 1:
		return string(kind) + " " + list[0]
	case len(list) <= shown:
		return fmt.Sprintf("%ss %s", kind, strings.Join(list, ", "))
	default:
		return fmt.Sprintf("%ss %s and %d more", kind, strings.Join(list[:shown], ", "), len(list)-shown)
	}
}
