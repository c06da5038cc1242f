package chain

import (
	"errors"
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Offer is what a ClusterClass says about versions.
type Offer struct {
	// Versions is spec.kubernetesVersions; empty where the class lists none.
	Versions []version.Version
	// Extension says that a GenerateUpgradePlan extension makes the plans. It is never asked here: a call from within an admission
	// request would hold up the API server, and what it answers may be different by the time the upgrade begins.
	Extension bool
}

// VersionChange is a request for another target version.
type VersionChange struct {
	// From is the target until now, zero where that cannot be read; To is the one that is asked for. They differ.
	From, To version.Version
	// Inventory is what the Cluster runs. Its control plane is at the version that it has, or that it is on its way to: a step that
	// has begun is finished first, so every way to a target starts there.
	Inventory plan.Inventory
	// Provisioning says that the control plane is being created and has reported no version yet.
	Provisioning bool
	// Upgrading says that the control plane is on its way to the version of Inventory.
	Upgrading bool
	// Running is what the control plane runs if the step to the version of Inventory can be taken back;
	// see ControlPlane.Unjoined. It is zero otherwise.
	Running version.Version
	// CompletionPending says that the intent to call AfterClusterUpgrade is recorded: an upgrade to From has begun, and is not completed.
	CompletionPending bool
}

// AdmissionRule names the rule that a request breaks. Where plan.Compute knows a rule for it, it has that one's name.
type AdmissionRule string

// The rules that plan does not know.
const (
	// RuleNotListed: the class lists versions, and this is not one of them.
	RuleNotListed AdmissionRule = "NotListed"
	// RuleProvisioning: the control plane is being created.
	RuleProvisioning AdmissionRule = "Provisioning"
)

// Refusal says why a version is refused.
type Refusal struct {
	Rule AdmissionRule
	// Problem says what is wrong, Accepted what would be accepted instead; both are without a capital or full stop.
	Problem, Accepted string
}

// Message is one sentence without a capital or full stop.
func (r *Refusal) Message() string {
	return r.Problem + "; accepted: " + r.Accepted
}

// CheckVersion checks the version of a Cluster against the class's list, whether it is new or changed or neither. Versions are the same
// when they read the same once they are normalised. A list counts also beside an extension, as it does in Cluster API.
func (o Offer) CheckVersion(v version.Version) *Refusal {
	if len(o.Versions) == 0 || slices.Contains(o.Versions, v) {
		return nil
	}
	return &Refusal{Rule: RuleNotListed, Problem: "the ClusterClass does not list it in spec.kubernetesVersions", Accepted: listVersions(o.Versions)}
}

// CheckTarget checks a changed target, with CheckVersion and for a legal way that leads to it.
//
// A step of the control plane that no machine has joined at can be taken back; see takesBack. Otherwise no
// Cluster goes back: neither its control plane nor a group of workers is ever newer than what CheckTarget accepts. The target until
// now is no bound of its own, because an upgrade that has not reached it may be given a nearer one; where no upgrade is under way the
// control plane is at it.
func (o Offer) CheckTarget(c VersionChange) *Refusal {
	if c.Provisioning {
		return &Refusal{
			Rule:     RuleProvisioning,
			Problem:  fmt.Sprintf("the control plane is being created with %s and has reported no version yet", c.Inventory.ControlPlane),
			Accepted: "the present target, until it has",
		}
	}
	if refusal := o.CheckVersion(c.To); refusal != nil {
		refusal.Accepted = o.describeReachable(c)
		return refusal
	}
	err := o.check(c.Inventory, c.To)
	if err == nil || o.takesBack(c, c.To) {
		return nil
	}
	refusal := &Refusal{Rule: AdmissionRule(err.Rule), Problem: err.Problem, Accepted: o.describeReachable(c)}
	if err.Item != plan.ItemTarget {
		refusal.Problem = describeItem(err)
	}
	return refusal
}

// takesBack reports whether the engine takes back the step under way on its way to a target, by the rule
// of decider.takeBack. With an extension it may: the engine asks for the plan, and takes no step back without one.
func (o Offer) takesBack(c VersionChange, to version.Version) bool {
	at := c.Inventory.ControlPlane
	goesOn := o.check(c.Inventory, to) == nil && (len(o.Versions) == 0 || slices.Contains(o.Versions, at))
	if c.Running.IsZero() || goesOn {
		return false
	}
	from := c.Inventory
	from.ControlPlane = c.Running
	if o.Extension {
		return checkNotBack(from, to) == nil
	}
	way, err := plan.Compute(plan.Request{Inventory: from, Target: to, Source: o.source()})
	return err == nil && (len(way.ControlPlane) > 0 || to == c.Running) && !slices.Contains(way.ControlPlane, at)
}

// check returns why there is no legal way to a version; nil where there is one. With an extension it is only known to exist where
// nothing would go back.
func (o Offer) check(inventory plan.Inventory, to version.Version) *plan.Error {
	if o.Extension {
		return checkNotBack(inventory, to)
	}
	_, err := plan.Compute(plan.Request{Inventory: inventory, Target: to, Source: o.source()})
	if refused, ok := errors.AsType[*plan.Error](err); ok {
		return refused
	}
	return nil
}

func (o Offer) source() plan.Source {
	if len(o.Versions) > 0 {
		return plan.VersionList(o.Versions)
	}
	return plan.NextMinor{}
}

// checkNotBack is what plan.Compute checks of a target whatever the source. Between builds without an order the extension decides.
func checkNotBack(inventory plan.Inventory, to version.Version) *plan.Error {
	if version.Compare(to, inventory.ControlPlane) == version.Less {
		return &plan.Error{
			Rule: plan.RuleDowngrade, Item: plan.ItemTarget, Version: to,
			Problem: fmt.Sprintf("it is older than the control plane's %s, and Kubernetes is never downgraded", inventory.ControlPlane),
		}
	}
	for _, g := range inventory.Groups {
		if version.Compare(to, g.Version) == version.Less {
			return &plan.Error{
				Rule: plan.RuleDowngrade, Item: plan.GroupItem(g.Name), Version: g.Version,
				Problem: fmt.Sprintf("it is newer than the target %s, and kubelets are never downgraded", to),
			}
		}
	}
	return nil
}

// describeItem says what is wrong with something else than the target. What would fix it is about that, so it is said too.
func describeItem(e *plan.Error) string {
	if e.Fix == "" {
		return fmt.Sprintf("%s %s: %s", e.Item, e.Version, e.Problem)
	}
	return e.Error()
}

// describeReachable says which targets CheckTarget accepts.
func (o Offer) describeReachable(c VersionChange) string {
	inventory := c.Inventory
	switch {
	case len(o.Versions) > 0:
		reachable := slices.DeleteFunc(slices.Clone(o.Versions), func(v version.Version) bool { return o.check(inventory, v) != nil && !o.takesBack(c, v) })
		return listVersions(reachable)
	case o.Extension:
		text := fmt.Sprintf("a version that is not older than %s, nor than any group of workers", inventory.ControlPlane)
		if !c.Running.IsZero() {
			text += fmt.Sprintf("; or, since no machine has joined at %s, not older than %s", inventory.ControlPlane, c.Running)
		}
		return text
	case o.check(inventory, inventory.ControlPlane) != nil:
		return listVersions(nil)
	default:
		text := fmt.Sprintf("%s and newer, up to the last %s version", inventory.ControlPlane, inventory.ControlPlane.Minor().Next())
		if !c.Running.IsZero() {
			text += fmt.Sprintf("; or, since no machine has joined at %s, %s and newer, up to the last %s version",
				inventory.ControlPlane, c.Running, c.Running.Minor().Next())
		}
		return text
	}
}

// Warning says what a person should know about a change that CheckTarget has accepted; empty where there is nothing to say.
func (o Offer) Warning(c VersionChange) string {
	if c.From.IsZero() {
		return ""
	}
	if o.takesBack(c, c.To) {
		text := fmt.Sprintf("no machine has joined at %s: the step to it is taken back, and the upgrade goes from %s to %s. "+
			"The step stays while one of its machines has a host: the condition TopologyReconciled says why",
			c.Inventory.ControlPlane, c.Running, c.To)
		if o.Extension {
			text += fmt.Sprintf(". It is not checked here that the extension has a plan from %s that leaves out %s; without one the step stays",
				c.Running, c.Inventory.ControlPlane)
		}
		return text
	}
	text := c.describe()
	if text == "" || !o.Extension || c.To == c.Inventory.ControlPlane {
		return text
	}
	return fmt.Sprintf("%s. It is not checked here that a plan to %s exists; `windlass plan CLUSTER --to %s` checks it", text, c.To, c.To)
}

// describe says what becomes of the upgrade to From. It promises no way to To.
func (c VersionChange) describe() string {
	here := c.Inventory.ControlPlane
	stays := c.To == here
	switch {
	case !c.underWay() && !c.CompletionPending:
		return ""
	case !c.underWay():
		return fmt.Sprintf("the upgrade to %s is done but for the AfterClusterUpgrade hook: the upgrade to %s begins when that has completed", c.From, c.To)
	case !c.hasBegun() && stays:
		return fmt.Sprintf("the upgrade to %s has not begun: it is cancelled, and the Cluster stays at %s", c.From, here)
	case !c.hasBegun():
		return fmt.Sprintf("the upgrade to %s has not begun: one from %s to %s takes its place", c.From, here, c.To)
	case c.Upgrading && stays:
		return fmt.Sprintf("the upgrade to %s is under way: the step of the control plane to %s is finished, workers follow, and the upgrade ends there", c.From, here)
	case c.Upgrading:
		return fmt.Sprintf("the upgrade to %s is under way: the step of the control plane to %s is finished, then the upgrade continues from there to %s", c.From, here, c.To)
	case stays:
		return fmt.Sprintf("the upgrade to %s is under way: the control plane stays at %s, workers follow, and the upgrade ends there", c.From, here)
	default:
		return fmt.Sprintf("the upgrade to %s is under way: the steps that have begun are finished, one that "+
			"something holds is cancelled, and the upgrade continues from %s to %s", c.From, here, c.To)
	}
}

// underWay reports whether something has not reached From yet.
func (c VersionChange) underWay() bool {
	return c.Upgrading || c.Inventory.ControlPlane != c.From || c.hasGroupNotAt(c.From)
}

// hasBegun reports whether anything of the upgrade to From has happened: the hook before it has let it go on, or something is not at the
// version of all else.
func (c VersionChange) hasBegun() bool {
	return c.CompletionPending || c.Upgrading || c.hasGroupNotAt(c.Inventory.ControlPlane)
}

func (c VersionChange) hasGroupNotAt(v version.Version) bool {
	return slices.ContainsFunc(c.Inventory.Groups, func(g plan.Group) bool { return g.Version != v })
}
