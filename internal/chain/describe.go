package chain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Condition is what the Cluster's TopologyReconciled condition says.
type Condition struct {
	True    bool
	Reason  string
	Message string
}

// The reasons of the condition, which are Cluster API's.
const (
	ReconcileSucceeded                = "ReconcileSucceeded"
	ReconcileFailed                   = "ReconcileFailed"
	ClusterCreating                   = "ClusterCreating"
	ClusterUpgrading                  = "ClusterUpgrading"
	MachineDeploymentsUpgradeDeferred = "MachineDeploymentsUpgradeDeferred"
	MachinePoolsUpgradeDeferred       = "MachinePoolsUpgradeDeferred"
	ClusterDeleting                   = "Deleting"
	ClusterPaused                     = "Paused"
)

// Describe puts a decision into the words of the condition. The same state of the chain gives the same bytes.
func Describe(s State, d Decision) Condition {
	switch d.Reason {
	case Paused:
		return Condition{Reason: ClusterPaused, Message: "Cluster is paused"}
	case NoPath, NoSource, HookFailed:
		return Condition{Reason: ReconcileFailed, Message: d.Message}
	case UpToDate, DeletingCluster, Creating, CreatingGroups, ControlPlaneProvisioning, ControlPlaneUpgrading, NotTakenBack, ControlPlaneStep, WorkersStep,
		WorkersUpgrading, WorkersShort, WorkersDeferred, GroupsLeaving, HookDue, HookBlocking, BlockedByAnnotation, Recording:
	}
	switch {
	case s.Deleting:
		return Condition{Reason: ClusterDeleting, Message: detail("Cluster is deleting", blocked(d)...)}
	case !s.ControlPlane.Exists:
		if lines := blocked(d); len(lines) > 0 {
			return Condition{Reason: ClusterCreating, Message: detail("Cluster is being created", lines...)}
		}
	case upgrading(s, d):
		lines := append(blocked(d), controlPlaneLine(s, d)...)
		for _, kind := range []plan.GroupKind{plan.MachineDeployment, plan.MachinePool} {
			lines = append(lines, groupLines(kind, d.Groups, s.ControlPlane.Version)...)
		}
		return Condition{Reason: upgradingReason(d), Message: detail("Cluster is upgrading to "+s.Target.String(), lines...)}
	}
	return Condition{True: true, Reason: ReconcileSucceeded}
}

func upgrading(s State, d Decision) bool {
	return !s.ControlPlane.Version.Equal(s.Target) || s.ControlPlane.Upgrading || s.Pending.Has(AfterClusterUpgrade) ||
		slices.ContainsFunc(d.Groups, func(g GroupStatus) bool {
			return g.Position == Moving || g.Position == Waiting || g.Position == Deferred
		})
}

func upgradingReason(d Decision) string {
	if d.Reason != WorkersDeferred {
		return ClusterUpgrading
	}
	if slices.ContainsFunc(d.Groups, func(g GroupStatus) bool { return g.Position == Deferred && g.Kind == plan.MachineDeployment }) {
		return MachineDeploymentsUpgradeDeferred
	}
	return MachinePoolsUpgradeDeferred
}

func blocked(d Decision) []string {
	switch d.Reason { //nolint:exhaustive // Others hold nothing.
	case HookBlocking, BlockedByAnnotation, GroupsLeaving, WorkersShort, NotTakenBack:
		return []string{d.Message}
	default:
		return nil
	}
}

func controlPlaneLine(s State, d Decision) []string {
	rest := d.Plan.ControlPlane
	switch raise, raising := d.Action.(RaiseControlPlane); {
	case raising:
		return []string{fmt.Sprintf("control plane upgrading to version %s%s", raise.To, pending(rest[1:]))}
	case s.ControlPlane.Upgrading:
		return []string{fmt.Sprintf("control plane upgrading to version %s%s", s.ControlPlane.Version, pending(rest))}
	case len(rest) > 0:
		return []string{"control plane pending upgrade to version " + list(rest)}
	default:
		return nil
	}
}

// groupLines has one line for all groups that stand at the same place with the same way before them.
func groupLines(kind plan.GroupKind, groups []GroupStatus, controlPlane version.Version) []string {
	var lines []string
	members := map[string][]string{}
	for _, g := range groups {
		line := groupLine(g, controlPlane)
		if g.Kind != kind || line == "" {
			continue
		}
		if members[line] == nil {
			lines = append(lines, line)
		}
		members[line] = append(members[line], g.Name)
	}
	for i, line := range lines {
		lines[i] = NameList(kind, members[line]) + " " + line
	}
	return lines
}

func groupLine(g GroupStatus, controlPlane version.Version) string {
	rest := g.Upgrades
	switch g.Position {
	case Moving:
		if len(rest) > 0 && rest[0].Equal(g.Version) {
			rest = rest[1:]
		}
		return fmt.Sprintf("upgrading to version %s%s", g.Version, pending(rest))
	case Deferred:
		return fmt.Sprintf("upgrade to version %s deferred by defer-upgrade or hold-upgrade-sequence annotations", controlPlane)
	case Waiting:
		if len(rest) == 0 {
			return "pending upgrade" // There is no plan.
		}
		return "pending upgrade to version " + list(rest)
	case ToCreate:
		return "creation deferred while the control plane is upgraded"
	case Done, Leaving:
		return ""
	}
	return ""
}

func pending(versions []version.Version) string {
	if len(versions) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s pending)", list(versions))
}

func list(versions []version.Version) string {
	some := text.Some{Most: maxVersionsNamed}
	for _, v := range versions {
		some.Add(v.String())
	}
	return some.Join(", ")
}

// maxLines is how many lines a condition has: groups may differ in their ways.
const maxLines = 8

func detail(head string, lines ...string) string {
	if more := len(lines) - maxLines; more > 0 {
		lines = append(slices.Clone(lines[:maxLines]), fmt.Sprintf("and %d more lines like these", more))
	}
	return strings.Join(append([]string{head}, lines...), "\n  * ")
}

// WorkersUpgrades lists the versions at which some group still stops, in the order in which the control plane reaches them: what hooks and the
// Cluster's status say of workers, although every group has a plan of its own.
func WorkersUpgrades(controlPlane version.Version, p plan.Plan) []version.Version {
	var stops []version.Version
	for _, v := range append([]version.Version{controlPlane}, p.ControlPlane...) {
		if slices.ContainsFunc(p.Groups, func(g plan.GroupPlan) bool { return slices.ContainsFunc(g.Upgrades, v.Equal) }) {
			stops = append(stops, v)
		}
	}
	return stops
}
