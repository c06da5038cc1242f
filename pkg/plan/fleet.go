package plan

import (
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/pkg/version"
)

// pool is all groups that behave alike: same version, same limit, same rule. Clusters have thousands of groups
// and few pools, so everything is computed for each pool once.
type pool struct {
	version version.Version
	// limit is MaxMinorStep.
	limit uint32
	// rule is the place of its StopRule, counted from 1; 0 for none, allRules for those of all groups.
	rule int
	// example is the name of its first group, for errors.
	example string
}

// fleet is an inventory's workers.
type fleet struct {
	pools []pool
	// groups are in the order of upgrade: MachineDeployments, then MachinePools, each in the inventory's order.
	groups []Group
	// poolOf holds the index of each group's pool.
	poolOf []int
}

func newFleet(r Request) (fleet, error) {
	given, rules := r.Inventory.Groups, rulesByGroup(r.Source.stops())
	f := fleet{groups: make([]Group, 0, len(given)), poolOf: make([]int, 0, len(given)), pools: make([]pool, 0, min(len(given), 4))}
	farthest := r.Policy.Skew.Farthest()
	if err := checkNames(given); err != nil {
		return fleet{}, err
	}
	for _, kind := range [...]GroupKind{MachineDeployment, MachinePool} {
		for _, g := range given {
			if g.Kind == "" {
				g.Kind = MachineDeployment
			}
			if g.Kind != kind {
				continue
			}
			p := pool{version: g.Version, limit: g.MaxMinorStep, rule: rules[g.Name], example: g.Name}
			if p.limit >= farthest {
				// Skew never lets a kubelet fall that far behind, so the limit makes no difference.
				p.limit = 0
			}
			index := indexOfPool(f.pools, p)
			if index < 0 {
				if err := checkGroup(r, g); err != nil {
					return fleet{}, err
				}
				index = len(f.pools)
				f.pools = append(f.pools, p)
			}
			f.groups = append(f.groups, g)
			f.poolOf = append(f.poolOf, index)
		}
	}
	return f, nil
}

// checkNames checks what does not depend on the rest of the request.
func checkNames(groups []Group) error {
	names := make(map[string]bool, len(groups))
	for i, g := range groups {
		if g.Kind != "" && g.Kind != MachineDeployment && g.Kind != MachinePool {
			return inventoryError(Item("groups").at(i), fmt.Sprintf("kind %q is unknown", g.Kind), "use MachineDeployment or MachinePool")
		}
		if g.Name == "" || names[g.Name] {
			return inventoryError(Item("groups").at(i), fmt.Sprintf("the name %q is empty or stands twice", g.Name), "give each group a name of its own")
		}
		names[g.Name] = true
	}
	return nil
}

// indexOfPool returns the index of the pool that differs from p in nothing but its example, or -1.
func indexOfPool(pools []pool, p pool) int {
	return slices.IndexFunc(pools, func(o pool) bool {
		return o.version == p.version && o.limit == p.limit && o.rule == p.rule
	})
}

func inventoryError(item Item, problem, fix string) error {
	return &Error{Rule: RuleInventory, Item: item, Problem: problem, Fix: fix}
}

// checkGroup checks where a group stands now. Only minors count against the control plane: the skew policy does not
// police patch releases, and a pool that is a patch ahead is fixed by the upgrade itself.
func checkGroup(r Request, g Group) error {
	if g.Version.IsZero() {
		return inventoryError(GroupItem(g.Name), "its version is missing", "say which version its machines have")
	}
	controlPlane, skew := r.Inventory.ControlPlane, r.Policy.Skew
	if g.Version.Minor().Major != controlPlane.Minor().Major {
		return &Error{
			Rule: RuleMajor, Item: GroupItem(g.Name), Version: g.Version,
			Problem: fmt.Sprintf("the control plane is at %s, and no upgrade between major versions is defined", controlPlane),
			Fix:     "check both versions",
		}
	}
	lag, ok := g.Version.Minor().Lag(controlPlane.Minor())
	if !ok {
		return &Error{
			Rule: RuleKubeletNewer, Item: GroupItem(g.Name), Version: g.Version,
			Problem: fmt.Sprintf("kubelets must not be newer than the control plane, which is at %s", controlPlane),
			Fix:     "check both versions; workers are never upgraded before the control plane",
		}
	}
	if limit := skew.MaxLag(g.Version.Minor(), controlPlane.Minor()); lag > limit {
		oldest := oldestAllowed(skew, controlPlane.Minor())
		return &Error{
			Rule: RuleSkew, Item: GroupItem(g.Name), Version: g.Version,
			Problem: fmt.Sprintf("it lags %s behind the control plane at %s: kubelet may lag %s", minors(lag), controlPlane, minors(limit)),
			Fix:     fmt.Sprintf("move this group to %s or newer first", oldest),
		}
	}
	if version.Compare(g.Version, r.Target) == version.Greater {
		return groupDowngradeError(g.Name, g.Version, r.Target)
	}
	return nil
}

func groupDowngradeError(name string, v, target version.Version) error {
	return &Error{
		Rule: RuleDowngrade, Item: GroupItem(name), Version: v,
		Problem: fmt.Sprintf("it is newer than the target %s, and kubelets are never downgraded", target),
		Fix:     fmt.Sprintf("choose a target that is not older than %s", v),
	}
}

// oldestAllowed returns the oldest kubelet minor that may run against a control plane.
func oldestAllowed(skew version.SkewPolicy, controlPlane version.Minor) version.Minor {
	oldest := controlPlane
	for oldest.Minor > 0 {
		older := version.Minor{Major: oldest.Major, Minor: oldest.Minor - 1}
		if !skew.Allows(older, controlPlane) {
			break
		}
		oldest = older
	}
	return oldest
}
