package snapshot

import (
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// RecordedPlan returns the rest of the plan in the Cluster's status, for a control plane at a
// version. The plan may be from before the control plane's last step.
func RecordedPlan(cluster *clusterv1.Cluster, at version.Version) (plan.Response, error) {
	var answer plan.Response
	read := func(
		items []clusterv1.StatusUpgradePlanVersion, keep func(version.Version) bool,
	) ([]version.Version, error) {
		var versions []version.Version
		for _, item := range items {
			v, err := version.Parse(item.Version)
			if err != nil {
				return nil, fmt.Errorf("the upgrade plan in the Cluster's status: %w", err)
			}
			if keep(v) {
				versions = append(versions, v)
			}
		}
		return versions, nil
	}
	var err error
	if status := cluster.Status.ControlPlane; status != nil {
		all := func(version.Version) bool { return true }
		answer.ControlPlane, err = read(status.UpgradePlan, all)
		if reached := slices.IndexFunc(answer.ControlPlane, at.Equal); reached >= 0 {
			answer.ControlPlane = answer.ControlPlane[reached+1:]
		}
	}
	if status := cluster.Status.Workers; status != nil && err == nil {
		answer.Workers, err = read(status.UpgradePlan, func(v version.Version) bool {
			return v.Equal(at) || slices.ContainsFunc(answer.ControlPlane, v.Equal)
		})
	}
	return answer, err
}

// OwnStops returns a recorded plan as windlass manager follows it. If the workers' list is what the
// groups' own plans give together, each group makes its own stops only, and the result has no list.
// Otherwise an extension has listed the stops, which count for every group.
func OwnStops(
	inventory plan.Inventory, target version.Version, recorded plan.Response,
) plan.Response {
	listed := recorded.Workers
	recorded.Workers = nil
	own, err := plan.Compute(plan.Request{
		Inventory: inventory, Target: target, Source: recorded,
		Policy: plan.Policy{Workers: plan.WorkersPerGroup},
	})
	if err == nil && !slices.Equal(chain.WorkersUpgrades(inventory.ControlPlane, own), listed) {
		recorded.Workers = listed
	}
	return recorded
}
