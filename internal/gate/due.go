package gate

import (
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Upgrade is what the objects of the management cluster show of a Cluster's upgrade.
type Upgrade struct {
	// Target is the Cluster's spec.topology.version.
	Target version.Version
	// Begun is the target that Windlass' upgrade engine recorded when BeforeClusterUpgrade let the upgrade begin. It is zero
	// where another engine upgrades.
	Begun version.Version
	// Pending are the hooks that the Cluster records as still to be called.
	Pending []Hook
	// ControlPlane is the version that the control plane object asks for. Upgrading reports that some of its machines are
	// older.
	ControlPlane version.Version
	Upgrading    bool
}

// Dueness is whether objects show that a lifecycle hook is due.
type Dueness int

const (
	// NotDue: Cluster API does not call the hook in this state. The call is forged, or made from an outdated cache.
	NotDue Dueness = iota
	// MaybeDue: the hook is due for an engine that takes over an upgrade which another one began, and not for the other one.
	// Objects do not show which engine upgrades. Gates are asked, but nothing may be recorded.
	MaybeDue
	// Due: Cluster API calls the hook in this state.
	Due
)

// called are the hooks of an upgrade of one minor in the order in which they are called.
var called = []Hook{
	BeforeClusterUpgrade, BeforeControlPlaneUpgrade, AfterControlPlaneUpgrade, BeforeWorkersUpgrade,
	AfterWorkersUpgrade, AfterClusterUpgrade,
}

// owed are the hooks that follow each step of the control plane, in the order in which they are called. Nothing else is called
// before they are.
var owed = called[2:5]

// Due returns whether the hook of a step is due, and why it is not.
//
// Cluster API's topology controller calls hooks from computeControlPlaneVersion (exp/topology/desiredstate) and from
// callAfterClusterUpgrade (core/reconcilers/topology/cluster). Windlass' engine calls them in the same order, with two
// additions: BeforeClusterUpgrade again for a target that was raised on the way, and AfterClusterUpgrade for the version that
// everything has when the target was raised after the last step.
func (u Upgrade) Due(step Step) (due Dueness, why string) {
	if why := u.owes(step.Hook); why != "" {
		return NotDue, why
	}
	switch step.Hook {
	case BeforeClusterUpgrade:
		return u.beforeCluster(step.Version)
	case BeforeControlPlaneUpgrade:
		return u.beforeControlPlane(step.Version)
	case AfterControlPlaneUpgrade, BeforeWorkersUpgrade, AfterWorkersUpgrade, AfterClusterUpgrade:
		return u.recorded(step)
	default:
		return NotDue, "there is no such hook"
	}
}

// owes says what has to happen before a hook.
func (u Upgrade) owes(hook Hook) (why string) {
	if u.Upgrading {
		return fmt.Sprintf("the control plane is still on its way to %s", u.ControlPlane)
	}
	for _, earlier := range owed {
		if earlier == hook {
			return ""
		}
		if u.isPending(earlier) {
			return fmt.Sprintf("%s is called first", string(earlier))
		}
	}
	return ""
}

func (u Upgrade) beforeCluster(to version.Version) (due Dueness, why string) {
	switch {
	case to != u.Target:
		return NotDue, fmt.Sprintf("the Cluster's target is %s", u.Target)
	case u.ControlPlane == u.Target:
		return NotDue, "the control plane is at the target"
	case !u.isPending(AfterClusterUpgrade):
		return Due, ""
	case u.Begun.IsZero() || u.Begun == u.Target:
		return MaybeDue, ""
	default:
		return Due, ""
	}
}

func (u Upgrade) beforeControlPlane(to version.Version) (due Dueness, why string) {
	switch {
	case !u.isPending(AfterClusterUpgrade):
		return NotDue, "no upgrade has begun"
	case to == u.ControlPlane || version.Compare(to, u.ControlPlane) == version.Less:
		return NotDue, fmt.Sprintf("the control plane is at %s", u.ControlPlane)
	case version.Compare(to, u.Target) == version.Greater:
		return NotDue, fmt.Sprintf("the Cluster's target is %s", u.Target)
	default:
		return Due, ""
	}
}

// recorded is for the hooks that the Cluster records as pending.
func (u Upgrade) recorded(step Step) (due Dueness, why string) {
	switch {
	case !u.isPending(step.Hook):
		return NotDue, "the Cluster does not record that the hook is pending"
	case step.Version != u.ControlPlane:
		return NotDue, fmt.Sprintf("the control plane is at %s", u.ControlPlane)
	case step.Hook == AfterClusterUpgrade && step.Version != u.Target && step.Version != u.Begun:
		return MaybeDue, ""
	default:
		return Due, ""
	}
}

func (u Upgrade) isPending(hook Hook) bool { return slices.Contains(u.Pending, hook) }

// NotDueError reports why a call is refused. Its text is for logs only: callers other than Cluster API must not learn it.
type NotDueError struct {
	Step Step
	// Why says what the objects show.
	Why string
}

// NotDueReason is the reason of a call that is refused with a NotDueError.
const NotDueReason = "NotDue"

// UnaskedReason returns NotDueReason, for metrics.
func (e *NotDueError) UnaskedReason() string { return NotDueReason }

// Error says which hook is not due, and why.
func (e *NotDueError) Error() string {
	return fmt.Sprintf("%s %s is not due: %s", string(e.Step.Hook), e.Step.Version, e.Why)
}
