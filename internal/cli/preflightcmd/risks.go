package preflightcmd

import (
	"context"
	"errors"
	"slices"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/upgradegraph"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// risksOf returns the known risks of an upgrade with the steps of its plan. Without a plan it has
// one step, from the first to the last version.
func (o *options) risksOf(
	ctx context.Context, m management.Cluster, objects snapshot.Objects, u preflight.Upgrade,
) (preflight.Risks, error) {
	r := preflight.Risks{Known: o.known, Facts: snapshot.RiskFacts(objects)}
	operations, graph, err := route(ctx, m, objects, u, r)
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	if err != nil {
		r.RouteUnknown = unknownRoute(objects, u, err)
		r.Steps = directSteps(objects, u)
	} else {
		r.Steps = risks.Steps(operations)
	}
	if graph != nil {
		k := graph.Spec.KnownRisks
		r.Blocks = func(risk *risks.Risk) bool { return upgradegraph.Blocks(k, risk) }
		r.Accepts = func(id string) bool { return upgradegraph.Accepts(k, id) }
	}
	return r, nil
}

// unknownRoute says why the steps are not known; empty if there is but one.
func unknownRoute(objects snapshot.Objects, u preflight.Upgrade, err error) string {
	minors, known := u.From.Minor().Lag(u.To.Minor())
	switch {
	case known && minors <= 1:
		return ""
	case !objects.Cluster.Spec.Topology.IsDefined():
		return "the Cluster has no topology"
	}
	return err.Error()
}

// directSteps returns the step of the control plane to the target, and one of workers for each version
// that a group has. A version that cannot be read counts as that of the control plane.
func directSteps(objects snapshot.Objects, u preflight.Upgrade) []risks.Step {
	steps := []risks.Step{{From: u.From, To: u.To}}
	add := func(text string) {
		from, err := version.Parse(text)
		if err != nil {
			from = u.From
		}
		if s := (risks.Step{From: from, To: u.To, Workers: true}); !slices.Contains(steps, s) {
			steps = append(steps, s)
		}
	}
	for _, md := range objects.MachineDeployments {
		add(md.Spec.Template.Spec.Version)
	}
	for _, mp := range objects.MachinePools {
		add(mp.Spec.Template.Spec.Version)
	}
	return steps
}

// kubeadmProvider returns the version of the provider of KubeadmControlPlane if a risk on the way
// depends on it; else zero.
func kubeadmProvider(ctx context.Context, m management.Cluster, r preflight.Risks) version.Version {
	if !slices.Contains(r.Known.Unknown(r.Facts, r.Steps), risks.KubeletClientUnbound) {
		return version.Version{}
	}
	return m.ProviderVersion(ctx, management.KubeadmProvider)
}

// route returns the operations of a Cluster's plan, and the UpgradeGraph that it is made from, if
// it is made from one.
func route(
	ctx context.Context, m management.Cluster, objects snapshot.Objects, u preflight.Upgrade,
	r preflight.Risks,
) ([]plan.Operation, *v1alpha1.UpgradeGraph, error) {
	state, err := snapshot.Take(objects, snapshot.Overrides{ControlPlane: u.From})
	if err != nil {
		return nil, nil, err
	}
	class, graphs, err := m.Source(ctx, objects.Cluster)
	if err != nil {
		return nil, nil, err
	}
	source, ref, err := snapshot.Source(objects.Cluster, class, graphs)
	if err != nil {
		return nil, nil, err
	}
	served, _ := ref.Object.(*v1alpha1.UpgradeGraph)
	request := plan.Request{
		Inventory: state.Inventory, Target: u.To,
		Source: upgradegraph.WithHazard(source, served, r.Known, r.Facts),
	}
	p, err := plan.Compute(request)
	if fault, ok := errors.AsType[*plan.Error](err); ok && fault.Rule == plan.RuleKnownRisk {
		// The way that is blocked shows by what.
		request.Source = source
		p, err = plan.Compute(request)
	}
	return p.Operations, served, err
}
