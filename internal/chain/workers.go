package chain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// isDue reports whether a group must go to the control plane's version before the control plane takes
// its next step: the group's own plan stops there. A group that is on its way somewhere finishes first.
func (d *decider) isDue(i int) bool {
	stops := d.stops[i]
	return len(stops) > 0 && stops[0].Equal(d.s.ControlPlane.Version) && !d.s.Groups[i].Upgrading
}

// moves are the groups that are due.
func (d *decider) moves() []*Group {
	var moves []*Group
	for i := range d.s.Groups {
		if d.isDue(i) {
			moves = append(moves, &d.s.Groups[i])
		}
	}
	return moves
}

// stopsAt reports whether some group's plan has a stop at v. Before a step to v that is the first stop of those that have one.
func (d *decider) stopsAt(v version.Version) bool {
	return slices.ContainsFunc(d.plan.Groups, func(p plan.GroupPlan) bool { return slices.ContainsFunc(p.Upgrades, v.Equal) })
}

// leftBehind are the groups on their way out whose machines may not run beside a control plane at v.
func (d *decider) leftBehind(v version.Version) []*Group {
	skew := d.s.Skew
	if skew.Farthest() == 0 {
		skew = version.KubernetesSkew()
	}
	behind := func(g *Group) bool { return !skew.Allows(g.Oldest.Minor(), v.Minor()) }
	left := filter(d.s.Groups, func(g *Group) bool { return g.Exists && g.Deleting && behind(g) })
	return append(left, filter(d.s.Leaving, behind)...)
}

// selectTurn selects which of the groups that are due begin now, as indices of State.Groups: in order, as many of one kind as may be upgrading at
// once, and MachinePools only when no MachineDeployment moves or could. A deferred group is passed over; at a held one the sequence ends.
func (d *decider) selectTurn() []int {
	var turn []int
	end := d.sequenceEnd()
	for _, kind := range []plan.GroupKind{plan.MachineDeployment, plan.MachinePool} {
		moving := d.s.moving(kind)
		slots := max(d.s.Concurrency, 1) - moving
		waiting := 0
		for i := range end {
			if g := &d.s.Groups[i]; g.Kind != kind || g.Defer || !d.isDue(i) {
				continue
			}
			if waiting++; waiting <= slots {
				turn = append(turn, i)
			}
		}
		if moving+waiting > 0 {
			break
		}
	}
	return turn
}

// sequenceEnd is the place of the first held group, at which the sequence ends.
func (d *decider) sequenceEnd() int {
	for i := range d.s.Groups {
		if d.s.Groups[i].Hold {
			return i
		}
	}
	return len(d.s.Groups)
}

func (d *decider) raiseWorkers(turn []int) Decision {
	to := d.s.ControlPlane.Version
	action := RaiseWorkers{To: to}
	groups := make([]*Group, len(turn))
	for place, i := range turn {
		groups[place] = &d.s.Groups[i]
		action.Groups = append(action.Groups, groups[place].Name)
	}
	decision := d.decide(action, WorkersStep, "%s to %s", names(groups), to)
	for _, i := range turn {
		g := &d.s.Groups[i]
		decision.Objects.Groups[i] = Object{Name: g.Name, Kind: g.Kind, Version: to}
		decision.Groups[i].Position, decision.Groups[i].Version = Moving, to
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
	for i := range objects {
		g := &d.s.Groups[i]
		objects[i] = Object{Name: g.Name, Kind: g.Kind, Version: g.Version, Hold: !g.Version.Equal(d.s.Target)}
		if !g.Exists {
			objects[i].Version, objects[i].Hold = d.s.Target, !d.mayCreate()
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
	end := d.sequenceEnd()
	for i := range status {
		g := &d.s.Groups[i]
		status[i] = GroupStatus{Name: g.Name, Kind: g.Kind, Version: g.Version, Upgrades: d.stops[i]}
		switch {
		case g.Deleting:
			status[i].Position = Leaving
		case !g.Exists:
			status[i].Position = ToCreate
		case g.Upgrading:
			status[i].Position = Moving
		case d.isDue(i) && (g.Defer || i >= end):
			status[i].Position = Deferred
		case g.Version.Equal(d.s.Target):
			status[i].Position = Done
		default:
			status[i].Position = Waiting
		}
	}
	return status
}

// upgradingMessage names the groups that move, by the version that they go to.
func (d *decider) upgradingMessage() string {
	var versions []version.Version
	moving := map[version.Version][]*Group{}
	for i := range d.s.Groups {
		g := &d.s.Groups[i]
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
func names(groups []*Group) string {
	var parts []string
	for _, kind := range []plan.GroupKind{plan.MachineDeployment, plan.MachinePool} {
		list := make([]string, 0, len(groups))
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
	if len(list) == 1 {
		return string(kind) + " " + list[0]
	}
	return fmt.Sprintf("%ss %s", kind, text.JoinSome(list, shown, ", "))
}
