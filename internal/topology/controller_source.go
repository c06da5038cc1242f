package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/util/cache"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	// plansKeptFor is how long an extension's plan is used for the same question: a plan that changes should be seen before long, and an extension
	// not be asked for every event.
	plansKeptFor = 10 * time.Minute
	// refusedFor is how long an answer is that stops the upgrade, or none at all: nothing else tells that there is a better one.
	refusedFor = 30 * time.Second
)

type planCache = cache.Cache[keptPlan]

func newPlanCache(ctx context.Context) planCache { return cache.New[keptPlan](ctx, plansKeptFor) }

// keptPlan is an extension's answer to one question, or why there is none.
type keptPlan struct {
	question string
	response plan.Response
	problem  error
	asked    time.Time
	// refused says that no upgrade can go on with it, and answered that the extension itself said so, or gave a plan.
	refused, answered bool
}

// Key is the question.
func (p keptPlan) Key() string { return p.question }

// until is when the question is asked again.
func (p keptPlan) until() time.Time {
	if p.refused {
		return p.asked.Add(refusedFor)
	}
	return p.asked.Add(plansKeptFor)
}

// refusePlan keeps an extension's answer that stops the upgrade for a short time only, and returns how long. It is zero where no extension's does.
func (r *run) refusePlan() time.Duration {
	if r.state.JoinProblem != "" {
		return refusedFor // No watch tells of Nodes without a Machine.
	}
	stops := r.decision.Reason == chain.NoPath || r.decision.Reason == chain.NoSource ||
		r.state.Back != nil || r.state.BackProblem != ""
	if r.kept == nil || !stops {
		return 0
	}
	r.kept.refused = true
	r.plans.Add(*r.kept)
	return max(r.kept.until().Sub(r.Now()), time.Second)
}

// readSource completes the state with where its versions come from, and how far its groups can be moved at once. Nothing is asked when everything
// is where it should be. A problem of the source is not an error of the reconcile: what runs goes on.
func (r *run) readSource(ctx context.Context) error {
	if !needsPlan(r.state) {
		return nil
	}
	problem := r.readLimits(ctx)
	if problem == nil {
		r.state.Source, _, problem = snapshot.Source(r.cluster, r.class, nil)
	}
	extension, asks := errors.AsType[*snapshot.ExtensionError](problem)
	if asks {
		r.state.Source, problem = r.askForPlan(ctx, extension.Extension, r.state.ControlPlane.Version)
	}
	if problem != nil {
		r.state.SourceProblem = text.Bound(problem.Error(), conditionBytes)
	}
	// Another problem than the extension's answer says nothing of the way.
	answered := asks && (problem == nil || r.kept.problem != nil && r.kept.answered)
	if answered && r.state.NeedsBack() {
		r.askForBack(ctx, extension.Extension)
	}
	return nil
}

// askForBack asks for the plan from what the control plane runs. Without one the step is not taken back, and the
// question is asked again soon: somebody may fix what the answer comes from.
func (r *run) askForBack(ctx context.Context, extension string) {
	onward := r.kept
	source, err := r.askForPlan(ctx, extension, r.state.ControlPlane.Running)
	if r.state.Back = source; err != nil {
		r.state.Back, r.state.BackProblem = nil, text.Bound(err.Error(), conditionBytes)
	}
	r.kept.refused = true
	r.plans.Add(*r.kept)
	onward.refused = true
	r.plans.Add(*onward)
	r.kept = onward
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

// askForPlan asks a GenerateUpgradePlan extension for the plan from a version of the control plane, unless its last answer to the same question still holds.
func (r *run) askForPlan(ctx context.Context, extension string, from version.Version) (plan.Source, error) {
	request := &runtimehooksv1.GenerateUpgradePlanRequest{
		Cluster:                           *requestCluster(r.cluster),
		FromControlPlaneKubernetesVersion: from.String(),
		FromWorkersKubernetesVersion:      oldestWorkers(r.state.Groups, from).String(),
		ToKubernetesVersion:               r.state.Target.String(),
	}
	question := fmt.Sprintf("%s %s %s %s %s %s", r.cluster.UID, r.class.UID, extension, request.FromControlPlaneKubernetesVersion, request.FromWorkersKubernetesVersion, request.ToKubernetesVersion)
	kept, ok := r.plans.Has(question)
	if now := r.Now(); !ok || !now.Before(kept.until()) {
		kept = keptPlan{question: question, asked: now}
		kept.response, kept.answered, kept.problem = r.callForPlan(ctx, extension, request)
		kept.refused = kept.problem != nil
		r.plans.Add(kept)
	}
	r.kept = &kept
	if kept.problem != nil {
		return nil, kept.problem
	}
	response := kept.response
	if extension == r.OwnPlanner && r.OwnGraph != nil {
		graph, err := r.OwnGraph(ctx, r.cluster)
		if err != nil {
			return nil, fmt.Errorf("reading the upgrade graph: %w", err)
		}
		response.Stops, response.Offered = graph.Stops, graph.Versions
	}
	return response, nil
}

// callForPlan calls the extension. The versions of the workers' list come with what all of them must go through; this project's own planner infers
// them, and so does the engine, for each group by itself. answered reports whether the extension gave a plan, or said that there is none.
func (r *run) callForPlan(
	ctx context.Context, extension string, request *runtimehooksv1.GenerateUpgradePlanRequest,
) (source plan.Response, answered bool, err error) {
	response := &runtimehooksv1.GenerateUpgradePlanResponse{}
	if err := r.Runtime.CallExtension(ctx, runtimehooksv1.GenerateUpgradePlan, r.cluster, extension, request, response); err != nil {
		return plan.Response{}, response.Status == runtimehooksv1.ResponseStatusFailure, err
	}
	if source.ControlPlane, err = parseSteps(response.ControlPlaneUpgrades); err != nil {
		return plan.Response{}, false, fmt.Errorf("extension %q: controlPlaneUpgrades: %w", extension, err)
	}
	if extension != r.OwnPlanner {
		if source.Workers, err = parseSteps(response.WorkersUpgrades); err != nil {
			return plan.Response{}, false, fmt.Errorf("extension %q: workersUpgrades: %w", extension, err)
		}
	}
	return source, true, nil
}

func parseSteps(steps []runtimehooksv1.UpgradeStep) ([]version.Version, error) {
	texts := make([]string, len(steps))
	for i, step := range steps {
		texts[i] = step.Version
	}
	return version.ParseList(texts)
}

// oldestWorkers is the oldest version that a machine of a group has; zero when there are no groups.
// Of unordered builds of one release, the one counts that the control plane does not have.
func oldestWorkers(groups []chain.Group, controlPlane version.Version) version.Version {
	var oldest version.Version
	for _, g := range groups {
		if g.Exists && !g.Deleting && (oldest.IsZero() || version.Compare(g.Oldest, oldest) == version.Less || g.Oldest.SamePatch(oldest) && oldest.Equal(controlPlane)) {
			oldest = g.Oldest
		}
	}
	return oldest
}
