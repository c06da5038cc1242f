package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/util/cache"

	"github.com/windlass-dev/windlass/internal/core/chain"
	"github.com/windlass-dev/windlass/internal/core/text"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// plansKeptFor is how long an extension's plan is used for the same question: a plan that changes should be seen before long, and an extension
// not be asked for every event.
const plansKeptFor = 10 * time.Minute

type planCache = cache.Cache[keptPlan]

func newPlanCache(ctx context.Context) planCache { return cache.New[keptPlan](ctx, plansKeptFor) }

// keptPlan is an extension's answer to one question.
type keptPlan struct {
	question string
	response plan.Response
}

// Key is the question.
func (p keptPlan) Key() string { return p.question }

// readSource completes the state with where its versions come from, and how far its groups can be moved at once. Nothing is asked when everything
// is where it should be. A problem of the source is not an error of the reconcile: what runs goes on.
func (r *run) readSource(ctx context.Context) error {
	if !needsPlan(r.state) {
		return nil
	}
	if err := r.readLimits(ctx); err != nil {
		return err
	}
	var problem error
	r.state.Source, _, problem = snapshot.Source(r.class, nil)
	if extension, ok := errors.AsType[*snapshot.ExtensionError](problem); ok {
		r.state.Source, problem = r.askForPlan(ctx, extension.Extension)
	}
	if problem != nil {
		r.state.SourceProblem = text.Bound(problem.Error(), conditionBytes)
	}
	return nil
}

func needsPlan(s chain.State) bool {
	if !s.ControlPlane.Exists {
		return false
	}
	return !s.ControlPlane.Version.Equal(s.Target) || slices.ContainsFunc(s.Groups, func(g chain.Group) bool {
		return g.Exists && !g.Oldest.Equal(s.Target)
	})
}

func (r *run) readLimits(ctx context.Context) error {
	if r.Limits == nil {
		return nil
	}
	for i, md := range r.cluster.Spec.Topology.Workers.MachineDeployments {
		current, exists := r.current.MachineDeployments[md.Name]
		if !exists {
			continue
		}
		limit, err := r.Limits.GroupMinors(ctx, r.cluster, current.Object)
		if err != nil {
			return fmt.Errorf("finding out how far MachineDeployment %s can be moved at once: %w", md.Name, err)
		}
		r.state.Groups[i].MaxMinorStep = uint32(max(limit, 0)) //nolint:gosec // It is a number of minors.
	}
	return nil
}

// askForPlan asks a GenerateUpgradePlan extension. The versions of the workers' list come with what all of them must go through; this project's own
// planner infers them, and so does the engine, for each group by itself.
func (r *run) askForPlan(ctx context.Context, extension string) (plan.Source, error) {
	request := &runtimehooksv1.GenerateUpgradePlanRequest{
		Cluster:                           *requestCluster(r.cluster),
		FromControlPlaneKubernetesVersion: r.state.ControlPlane.Version.String(),
		FromWorkersKubernetesVersion:      oldestWorkers(r.state).String(),
		ToKubernetesVersion:               r.state.Target.String(),
	}
	question := fmt.Sprintf("%s %s %s %s %s %s", r.cluster.UID, r.class.UID, extension, request.FromControlPlaneKubernetesVersion, request.FromWorkersKubernetesVersion, request.ToKubernetesVersion)
	if kept, ok := r.plans.Has(question); ok {
		return kept.response, nil
	}
	response := &runtimehooksv1.GenerateUpgradePlanResponse{}
	if err := r.Runtime.CallExtension(ctx, runtimehooksv1.GenerateUpgradePlan, r.cluster, extension, request, response); err != nil {
		return nil, err
	}
	var source plan.Response
	var err error
	if source.ControlPlane, err = parseSteps(response.ControlPlaneUpgrades); err != nil {
		return nil, fmt.Errorf("extension %q: controlPlaneUpgrades: %w", extension, err)
	}
	if extension != r.OwnPlanner {
		if source.Workers, err = parseSteps(response.WorkersUpgrades); err != nil {
			return nil, fmt.Errorf("extension %q: workersUpgrades: %w", extension, err)
		}
	}
	r.plans.Add(keptPlan{question: question, response: source})
	return source, nil
}

func parseSteps(steps []runtimehooksv1.UpgradeStep) ([]version.Version, error) {
	texts := make([]string, len(steps))
	for i, step := range steps {
		texts[i] = step.Version
	}
	return version.ParseList(texts)
}

// oldestWorkers is the oldest version that a machine of a group has; zero when there are no groups.
func oldestWorkers(s chain.State) version.Version {
	var oldest version.Version
	for _, g := range s.Groups {
		if g.Exists && (oldest.IsZero() || version.Compare(g.Oldest, oldest) == version.Less || g.Oldest.SamePatch(oldest) && oldest.Equal(s.ControlPlane.Version)) {
			oldest = g.Oldest
		}
	}
	return oldest
}
