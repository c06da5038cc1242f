package plan

import (
	"fmt"
	"strconv"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Rule names the rule that a request or a plan breaks. The names are stable: scripts and conditions may rely on them.
type Rule string

// Rules about the request itself: it describes a cluster that cannot be.
const (
	// RuleInventory: a version or a name is missing, or a name stands twice.
	RuleInventory Rule = "InvalidInventory"
	// RuleKubeletNewer: a kubelet must not be of a newer minor than its API server.
	RuleKubeletNewer Rule = "KubeletNewerThanControlPlane"
)

// Rules about the way from here to the target: no legal plan exists.
const (
	// RuleDowngrade: the target is older than what runs.
	RuleDowngrade Rule = "Downgrade"
	// RuleMajor: no upgrade between major versions is defined.
	RuleMajor Rule = "MajorVersion"
	// RuleNextMinorOnly: without a source of versions only the next minor can be reached.
	RuleNextMinorOnly Rule = "NextMinorOnly"
	// RuleTargetNotOffered: the source does not offer the target.
	RuleTargetNotOffered Rule = "TargetNotOffered"
	// RuleMinorMissing: the source offers no version of a minor on the way.
	RuleMinorMissing Rule = "MinorMissing"
	// RuleSkew: a kubelet may lag only so far behind its API server.
	RuleSkew Rule = "VersionSkew"
	// RuleTransition: a group's update method cannot jump that far.
	RuleTransition Rule = "Transition"
	// RuleBlocked: an upgrade graph blocks every way forward.
	RuleBlocked Rule = "BlockedEdge"
	// RuleFloor: an upgrade graph asks for a version that cannot be reached first.
	RuleFloor Rule = "Floor"
	// RuleKnownRisk: a known risk is against every way forward.
	RuleKnownRisk Rule = "KnownRisk"
)

// Rules about the lists of a GenerateUpgradePlan response.
const (
	// RuleAtTarget: a list must be empty when there is nothing to upgrade.
	RuleAtTarget Rule = "AlreadyAtTarget"
	// RuleOrder: each item is newer than all that comes before it, the current version included.
	RuleOrder Rule = "NotNewer"
	// RuleMinorSkipped: the control plane moves one minor at a time.
	RuleMinorSkipped Rule = "MinorSkipped"
	// RuleBeyondTarget: no item is newer than the target.
	RuleBeyondTarget Rule = "BeyondTarget"
	// RuleEndsAtTarget: the last item is the target.
	RuleEndsAtTarget Rule = "EndsAtTarget"
	// RuleNotOnRoute: workers stop only at versions that the control plane has now or will have.
	RuleNotOnRoute Rule = "NotAControlPlaneVersion"
)

// BadInput reports whether the rule is about the request, not about the way to the target.
func (r Rule) BadInput() bool { return r == RuleInventory || r == RuleKubeletNewer }

// Item is the part of a request that an Error is about.
type Item string

// Items that are not part of a list.
const (
	ItemTarget        Item = "target"
	ItemControlPlane  Item = "controlPlane"
	itemControlPlanes Item = "controlPlaneUpgrades"
	itemWorkers       Item = "workersUpgrades"
)

// GroupItem is the Item for a worker group.
func GroupItem(name string) Item { return Item("group " + strconv.Quote(name)) }

func (i Item) at(index int) Item { return Item(fmt.Sprintf("%s[%d]", i, index)) }

// Error says why there is no legal plan. It is the only type of error that this package returns.
type Error struct {
	Rule Rule
	// Item is what breaks the rule.
	Item Item
	// Version is the version at fault; zero where the fault is that one is missing.
	Version version.Version
	// Problem says what is wrong, Fix what would put it right; both are sentences without a capital or full stop.
	Problem, Fix string
}

func (e *Error) Error() string {
	subject := string(e.Item)
	if !e.Version.IsZero() {
		subject += " " + e.Version.String()
	}
	return fmt.Sprintf("%s: %s. Fix: %s", subject, e.Problem, e.Fix)
}
