package differential

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/exp/topology/desiredstate"
	"sigs.k8s.io/cluster-api/exp/topology/scope"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// outcome is what a planner answers: a plan in normalised versions, or an error.
type outcome struct {
	controlPlane, workers []string
	err                   error
	// rule is set for errors of our planner.
	rule plan.Rule
	// groups is each group's own stops, from our planner only.
	groups [][]string
}

func (o outcome) equal(p outcome) bool {
	if o.err != nil || p.err != nil {
		return o.err != nil && p.err != nil
	}
	return slices.Equal(o.controlPlane, p.controlPlane) && slices.Equal(o.workers, p.workers)
}

// ours runs plan.Compute. That inputs parse, and that errors have the package's one type, is documented: anything else
// panics the test.
func ours(in input) outcome {
	r, err := in.request()
	if err != nil {
		panic(err)
	}
	p, err := plan.Compute(r)
	if err != nil {
		var e *plan.Error
		if !errors.As(err, &e) {
			panic(err)
		}
		return outcome{err: err, rule: e.Rule}
	}
	o := outcome{controlPlane: texts(p.ControlPlane), workers: texts(p.Workers)}
	o.groups = make([][]string, len(in.groups))
	for i, g := range r.Inventory.Groups {
		at := slices.IndexFunc(p.Groups, func(gp plan.GroupPlan) bool { return gp.Name == g.Name })
		o.groups[i] = texts(p.Groups[at].Upgrades)
	}
	return o
}

func texts(versions []version.Version) []string {
	var ss []string
	for _, v := range versions {
		ss = append(ss, v.String())
	}
	return ss
}

// upstream runs ComputeUpgradePlan with the source that Cluster API would use. It sees the groups through the minimum that
// ComputeUpgradePlan itself makes of them, taken pair by pair, because over a map of groups it depends on the map's order.
func upstream(in input) outcome {
	controlPlane, target := in.controlPlane.String(), in.target.String()
	workers := ""
	for i, g := range in.groups {
		if i == 0 {
			workers = g.at.String()
		}
		s := newScope(controlPlane, target, workers, g.at.String())
		// The minimum is known before noPlan's empty plan is found illegal: an error here says nothing.
		_ = desiredstate.ComputeUpgradePlan(context.Background(), s, noPlan)
		workers = s.UpgradeTracker.MinWorkersVersion
	}
	s := newScope(controlPlane, target, workers, "")
	err := desiredstate.ComputeUpgradePlan(context.Background(), s, in.upstreamSource())
	if err != nil {
		return outcome{err: err}
	}
	o := outcome{controlPlane: normalised(s.UpgradeTracker.ControlPlane.UpgradePlan), workers: normalised(s.UpgradeTracker.MachineDeployments.UpgradePlan)}
	if in.source == fromResponse && o.controlPlane == nil && o.workers == nil {
		// With everything at the target the extension is not even called. What its answer is worth shows the validation.
		ws, err := desiredstate.DefaultAndValidateUpgradePlans(target, controlPlane, workers, strs(in.list), strs(in.workers))
		o = outcome{controlPlane: normalised(strs(in.list)), workers: normalised(ws), err: err}
	}
	return o
}

func noPlan(context.Context, string, string, string) (controlPlane, workers []string, err error) {
	return nil, nil, nil
}

func (in input) upstreamSource() desiredstate.GetUpgradePlanFunc {
	switch in.source {
	case fromNextMinor:
		return desiredstate.GetUpgradePlanOneMinor
	case fromList:
		return desiredstate.GetUpgradePlanFromClusterClassVersions(strs(in.list))
	case fromResponse:
		return func(context.Context, string, string, string) ([]string, []string, error) {
			return strs(in.list), strs(in.workers), nil
		}
	default:
		panic("unknown source")
	}
}

// newScope is as much of a reconciliation's state as planning looks at: one MachineDeployment and one MachinePool, where
// an empty version leaves it out.
func newScope(controlPlane, target, deployment, pool string) *scope.Scope {
	s := scope.New(&clusterv1.Cluster{})
	s.Blueprint.Topology = clusterv1.Topology{Version: target}
	s.Current.ControlPlane = &scope.ControlPlaneState{Object: &unstructured.Unstructured{
		Object: map[string]any{"spec": map[string]any{"version": controlPlane}},
	}}
	if deployment != "" {
		md := &clusterv1.MachineDeployment{}
		md.Spec.Template.Spec.Version = deployment
		s.Current.MachineDeployments = scope.MachineDeploymentsStateMap{"md": {Object: md}}
	}
	if pool != "" {
		mp := &clusterv1.MachinePool{}
		mp.Spec.Template.Spec.Version = pool
		s.Current.MachinePools = scope.MachinePoolsStateMap{"mp": {Object: mp}}
	}
	return s
}

// normalised puts the v before versions that lack it, so that only versions are compared and not spellings.
func normalised(list []string) []string {
	var ns []string
	for _, s := range list {
		if s != "" && s[0] != 'v' {
			s = "v" + s
		}
		ns = append(ns, s)
	}
	return ns
}
