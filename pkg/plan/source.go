package plan

import (
	"fmt"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Source says where the versions of a plan come from. It is one of NextMinor, VersionList, Response and Graph.
//
//sumtype:decl
type Source interface {
	// controlPlane selects the control plane's versions, from the current one (excluded) to the target (included): none
	// when the two are the same.
	controlPlane(current, target version.Version) ([]controlPlaneStep, error)
	// workers returns the stops that every group below them is sent to; empty means that they are inferred.
	workers() []version.Version
	// stops returns the rules for groups of workers; none where the rules of skew and updates decide alone.
	stops() []StopRule
	// listed returns the versions on offer, if the source has a list, in an order that decides between builds of a release.
	listed() []version.Version
}

// controlPlaneStep is one version of the control plane's route and why it is there.
type controlPlaneStep struct {
	version version.Version
	reason  Reason
}

// NextMinor is the source of a ClusterClass without a version list and without an extension: it knows the target only, so
// it reaches at most the next minor.
type NextMinor struct{}

// VersionList is ClusterClass.spec.kubernetesVersions. The order of the list decides between builds that have no order
// of their own; for all other versions it does not matter.
type VersionList []version.Version

// Response is the answer of a GenerateUpgradePlan extension.
type Response struct {
	// ControlPlane is controlPlaneUpgrades.
	ControlPlane []version.Version
	// Workers is workersUpgrades; when empty, the stops are inferred. When not, every group below an item is sent to it.
	Workers []version.Version
	// Stops are rules for groups, where Workers is empty. A response has no place for them: they come from the upgrade graph
	// that it was made from.
	Stops []StopRule
	// Offered are all versions of that graph, in no order; empty means that they are not known. They decide
	// nothing of a plan.
	Offered []version.Version
}

func (NextMinor) workers() []version.Version   { return nil }
func (VersionList) workers() []version.Version { return nil }
func (r Response) workers() []version.Version  { return r.Workers }

func (NextMinor) stops() []StopRule   { return nil }
func (VersionList) stops() []StopRule { return nil }
func (r Response) stops() []StopRule  { return r.Stops }

func (NextMinor) listed() []version.Version     { return nil }
func (l VersionList) listed() []version.Version { return l }
func (r Response) listed() []version.Version    { return nil }

func (NextMinor) controlPlane(current, target version.Version) ([]controlPlaneStep, error) {
	if current == target {
		return nil, nil
	}
	if lag, ok := current.Minor().Lag(target.Minor()); !ok || lag > 1 {
		return nil, &Error{
			Rule: RuleNextMinorOnly, Item: ItemTarget, Version: target,
			Problem: fmt.Sprintf("it is %d minors ahead of the control plane at %s, and nothing says which versions lie between", lag, current),
			Fix: fmt.Sprintf("list the versions in ClusterClass spec.kubernetesVersions, name a GenerateUpgradePlan extension, or go to %s first",
				current.Minor().Next()),
		}
	}
	return []controlPlaneStep{{version: target, reason: Reason{Code: ReasonTarget, Version: target}}}, nil
}

func (l VersionList) controlPlane(current, target version.Version) ([]controlPlaneStep, error) {
	if current == target {
		return nil, nil
	}
	if err := checkOffered(l, "the list of versions", current, target); err != nil {
		return nil, err
	}
	// The number of minors may be nonsense; the list bounds what can come of it.
	lag, _ := current.Minor().Lag(target.Minor())
	steps := make([]controlPlaneStep, 0, min(int(lag)+1, len(l)))
	for minor := current.Minor().Next(); minor.Before(target.Minor()); minor = minor.Next() {
		latest, ok := l.latestOf(minor)
		if !ok {
			return nil, missingMinorError("the list of versions", minor, current, target)
		}
		steps = append(steps, controlPlaneStep{version: latest, reason: Reason{Code: ReasonLatestOfMinor, Version: latest}})
	}
	return append(steps, controlPlaneStep{version: target, reason: Reason{Code: ReasonTarget, Version: target}}), nil
}

// checkOffered checks that versions hold the target, and, where it is another build of the current release, in the right
// order.
func checkOffered(versions []version.Version, where string, current, target version.Version) error {
	at := indexOf(versions, target)
	if at < 0 {
		return &Error{
			Rule: RuleTargetNotOffered, Item: ItemTarget, Version: target,
			Problem: where + " does not offer it", Fix: fmt.Sprintf("add %s to %s, or choose one of its versions", target, where),
		}
	}
	if version.Compare(current, target) == version.Unordered && indexOf(versions, current) > at {
		return downgradeError(current, target, "their builds are words without an order, and "+where+" puts it before")
	}
	return nil
}

// latestOf returns the newest version of a minor; among builds that have no order, the last in the list.
func (l VersionList) latestOf(minor version.Minor) (latest version.Version, found bool) {
	for _, v := range l {
		if v.Minor() != minor {
			continue
		}
		if c := version.Compare(v, latest); !found || c == version.Greater || c == version.Unordered {
			latest, found = v, true
		}
	}
	return latest, found
}

// maxSteps bounds the list of a response, as Cluster API's own types do.
const maxSteps = 1000

func (r Response) controlPlane(current, target version.Version) ([]controlPlaneStep, error) {
	if len(r.ControlPlane) > maxSteps {
		return nil, inventoryError(itemControlPlanes, fmt.Sprintf("the list has %d items", len(r.ControlPlane)), fmt.Sprintf("list at most %d", maxSteps))
	}
	if current == target && len(r.ControlPlane) > 0 {
		return nil, &Error{
			Rule: RuleAtTarget, Item: itemControlPlanes, Version: r.ControlPlane[0],
			Problem: fmt.Sprintf("the control plane is at the target %s already", target), Fix: "leave the list empty",
		}
	}
	if current != target && len(r.ControlPlane) == 0 {
		return nil, &Error{
			Rule: RuleEndsAtTarget, Item: itemControlPlanes, Version: target,
			Problem: fmt.Sprintf("the list is empty, and the control plane is at %s, not at the target", current),
			Fix:     "list every version that the control plane goes through, the target last",
		}
	}
	steps := make([]controlPlaneStep, 0, len(r.ControlPlane))
	for _, v := range r.ControlPlane {
		steps = append(steps, controlPlaneStep{version: v, reason: listedReason(v, target)})
	}
	return steps, nil
}

// listedReason returns why a response's list contains v.
func listedReason(v, target version.Version) Reason {
	if v == target {
		return Reason{Code: ReasonTarget, Version: v}
	}
	return Reason{Code: ReasonListed, Version: v}
}

func indexOf(versions []version.Version, v version.Version) int {
	for i := range versions {
		if versions[i] == v {
			return i
		}
	}
	return -1
}

func downgradeError(current, target version.Version, how string) error {
	return &Error{
		Rule: RuleDowngrade, Item: ItemTarget, Version: target,
		Problem: fmt.Sprintf("%s the control plane's %s, and Kubernetes is never downgraded", how, current),
		Fix:     fmt.Sprintf("choose a version newer than %s", current),
	}
}

func missingMinorError(where string, minor version.Minor, current, target version.Version) error {
	return &Error{
		Rule: RuleMinorMissing, Item: Item(minor.String()),
		Problem: fmt.Sprintf("%s offers no %s version, and the control plane cannot skip a minor on its way from %s to %s", where, minor, current, target),
		Fix:     fmt.Sprintf("add a %s version", minor),
	}
}
