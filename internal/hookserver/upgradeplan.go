package hookserver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/upgradegraph"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// GenerateUpgradePlanHandler is the name of the handler of the GenerateUpgradePlan hook.
const GenerateUpgradePlanHandler = "generate-upgrade-plan"

// SettingGraph is the key in an ExtensionConfig's settings that names the UpgradeGraph to plan from.
const SettingGraph = "graph"

// workersGroup is the one group of workers that a request tells of.
const workersGroup = "workers"

// Graphs reads the UpgradeGraphs that there are.
type Graphs interface {
	// ListUpgradeGraphs returns all graphs. The caller does not change them.
	ListUpgradeGraphs(ctx context.Context) ([]v1alpha1.UpgradeGraph, error)
}

// GraphsFrom returns Graphs that reads with a client, which should be one with a cache.
func GraphsFrom(reader client.Reader) Graphs { return clientGraphs{reader: reader} }

type clientGraphs struct{ reader client.Reader }

func (g clientGraphs) ListUpgradeGraphs(ctx context.Context) ([]v1alpha1.UpgradeGraph, error) {
	var list v1alpha1.UpgradeGraphList
	if err := g.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing UpgradeGraphs: %w", err)
	}
	return list.Items, nil
}

// Limits tells how far workers can be moved at once.
type Limits interface {
	// WorkerMinors returns how many minors a Cluster's workers can be moved at once; 0 means any number that skew allows.
	WorkerMinors(ctx context.Context, cluster *clusterv1.Cluster) (int, error)
}

// ControlPlanes reads what known risks of a Cluster depend on.
type ControlPlanes interface {
	// ReadReferenced returns the object that a reference names.
	ReadReferenced(
		ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference,
	) (*unstructured.Unstructured, error)
}

// UpgradePlanner answers the GenerateUpgradePlan hook with plans from UpgradeGraphs. It is safe for concurrent use.
type UpgradePlanner struct {
	graphs        Graphs
	limits        Limits
	risks         *risks.Set
	controlPlanes ControlPlanes
	outcomes      outcomes
}

// NewUpgradePlanner returns an UpgradePlanner. Without limits, workers can jump as far as skew allows. Without known
// risks, those of this release count. Without control planes, nothing is known of one but its kind and size.
func NewUpgradePlanner(graphs Graphs, limits Limits, known *risks.Set, controlPlanes ControlPlanes) *UpgradePlanner {
	if known == nil {
		known = risks.BuiltIn()
	}
	return &UpgradePlanner{graphs: graphs, limits: limits, risks: known, controlPlanes: controlPlanes, outcomes: newOutcomes()}
}

// GenerateUpgradePlan answers one request. The workers' stops are always explicit: what Cluster API infers from an empty
// list allows kubelets older than v1.25 too great a lag, and counts from the wrong minor when a minor is missing.
// The same request and graphs give the same bytes.
func (p *UpgradePlanner) GenerateUpgradePlan(ctx context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest, response *runtimehooksv1.GenerateUpgradePlanResponse) {
	graph, computed, err := p.answer(ctx, request)
	p.log(ctx, request, graph, computed, err)
	if err != nil {
		response.SetStatus(runtimehooksv1.ResponseStatusFailure)
		response.SetMessage(boundMessage(err.Error()))
		return
	}
	response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	response.ControlPlaneUpgrades = encodeSteps(request, computed.ControlPlane)
	response.WorkersUpgrades = encodeSteps(request, computed.Workers)
}

// answer returns the plan for a request, and the name of the graph that it came from as soon as that is known.
func (p *UpgradePlanner) answer(ctx context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest) (graph string, computed plan.Plan, err error) {
	selector, err := decodeSelector(request)
	if err != nil {
		return "", plan.Plan{}, err
	}
	question, err := decodeRequest(request)
	if err != nil {
		return "", plan.Plan{}, err
	}
	if err := p.limit(ctx, request, &question); err != nil {
		return "", plan.Plan{}, err
	}
	graphs, err := p.graphs.ListUpgradeGraphs(ctx)
	if err != nil {
		return "", plan.Plan{}, err
	}
	selected, err := upgradegraph.Select(graphs, selector)
	if err != nil {
		return "", plan.Plan{}, err
	}
	parsed, err := upgradegraph.Parse(selected.Spec)
	if err != nil {
		return selected.Name, plan.Plan{}, fmt.Errorf("UpgradeGraph %q is not valid: %w", selected.Name, err)
	}
	parsed.Stops = sharedStops(upgradegraph.Stops(selected.Spec, upgradegraph.WorkersOf(&request.Cluster)))
	facts, err := p.readRiskFacts(ctx, &request.Cluster, selected.Spec.KnownRisks)
	if err != nil {
		return selected.Name, plan.Plan{}, err
	}
	parsed.Hazard = upgradegraph.Hazard(selected.Spec.KnownRisks, p.risks, facts)
	question.Source = parsed
	if computed, err = plan.Compute(question); err != nil {
		return selected.Name, plan.Plan{}, fmt.Errorf("UpgradeGraph %q: %w", selected.Name, err)
	}
	return selected.Name, computed, nil
}

// readRiskFacts returns what known risks depend on. The etcd that runs is not known here: what a version brings counts, or
// what the KubeadmControlPlane configures. Nothing is read for a graph that blocks no risk.
func (p *UpgradePlanner) readRiskFacts(
	ctx context.Context, cluster *clusterv1.Cluster, k v1alpha1.KnownRisks,
) (risks.Facts, error) {
	objects, ref := snapshot.Objects{Cluster: cluster}, cluster.Spec.ControlPlaneRef
	// A caller must not choose which kinds are read.
	configures := ref.Kind == "KubeadmControlPlane" && ref.APIGroup == "controlplane.cluster.x-k8s.io"
	if p.controlPlanes != nil && configures && k.Action == v1alpha1.KnownRisksBlock {
		object, err := p.controlPlanes.ReadReferenced(ctx, cluster.Namespace, ref)
		if client.IgnoreNotFound(err) != nil {
			return risks.Facts{}, fmt.Errorf("reading the control plane for known risks: %w", err)
		}
		if err == nil {
			objects.ControlPlane = object
		}
	}
	return snapshot.RiskFacts(objects), nil
}

// sharedStops makes one rule of those of a Cluster's groups, because a request tells of one group only.
func sharedStops(rules []plan.StopRule) []plan.StopRule {
	if len(rules) == 0 {
		return nil
	}
	shared := plan.StopRule{Groups: []string{workersGroup}}
	for _, r := range rules {
		shared.EveryMinor = shared.EveryMinor || r.EveryMinor
		shared.At = append(shared.At, r.At...)
	}
	return []plan.StopRule{shared}
}

// GraphOf returns the graph of a Cluster, with its rules for the Cluster's groups. settings are those of the ExtensionConfig.
// A response has one list for all workers, and does not tell what else is on offer; an engine that moves each group by its own
// plan needs the rules, and one that takes steps back the versions.
func GraphOf(ctx context.Context, graphs Graphs, cluster *clusterv1.Cluster, settings map[string]string) (plan.Graph, error) {
	selector, err := decodeSelector(&runtimehooksv1.GenerateUpgradePlanRequest{
		CommonRequest: runtimehooksv1.CommonRequest{Settings: settings}, Cluster: *cluster,
	})
	if err != nil {
		return plan.Graph{}, err
	}
	list, err := graphs.ListUpgradeGraphs(ctx)
	if err != nil {
		return plan.Graph{}, err
	}
	graph, err := upgradegraph.Select(list, selector)
	if err != nil {
		return plan.Graph{}, err
	}
	parsed, err := upgradegraph.Parse(graph.Spec)
	if err != nil {
		return plan.Graph{}, fmt.Errorf("UpgradeGraph %q is not valid: %w", graph.Name, err)
	}
	parsed.Stops = upgradegraph.Stops(graph.Spec, upgradegraph.WorkersOf(cluster))
	return parsed, nil
}

// limit makes workers stop as often as the way in which they are updated needs.
func (p *UpgradePlanner) limit(ctx context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest, question *plan.Request) error {
	if p.limits == nil || len(question.Inventory.Groups) == 0 {
		return nil
	}
	minors, err := p.limits.WorkerMinors(ctx, &request.Cluster)
	if err != nil {
		return fmt.Errorf("finding out how far workers can be moved at once: %w", err)
	}
	for i := range question.Inventory.Groups {
		question.Inventory.Groups[i].MaxMinorStep = uint32(max(minors, 0)) //nolint:gosec // The API bounds it to 10.
	}
	return nil
}

// decodeSelector says which graph a request wants.
func decodeSelector(request *runtimehooksv1.GenerateUpgradePlanRequest) (upgradegraph.Selector, error) {
	selector := upgradegraph.Selector{}
	for _, key := range sortedKeys(request.Settings) {
		if key != SettingGraph {
			return selector, fmt.Errorf("the ExtensionConfig's settings hold the unknown key %q; the only one there is: %q", key, SettingGraph)
		}
		if selector.Name = request.Settings[key]; selector.Name == "" {
			return selector, fmt.Errorf("the setting %q of the ExtensionConfig is empty; name an UpgradeGraph, or remove the setting", SettingGraph)
		}
	}
	if key := request.Cluster.GetClassKey(); key.Name != "" {
		selector.Class = types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
	}
	return selector, nil
}

// decodeRequest translates all that a plan depends on but the graph.
func decodeRequest(request *runtimehooksv1.GenerateUpgradePlanRequest) (plan.Request, error) {
	var decoded plan.Request
	var workers version.Version
	for _, field := range []struct {
		name     string
		value    string
		optional bool
		target   *version.Version
	}{
		{name: "fromControlPlaneKubernetesVersion", value: request.FromControlPlaneKubernetesVersion, target: &decoded.Inventory.ControlPlane},
		{name: "fromWorkersKubernetesVersion", value: request.FromWorkersKubernetesVersion, optional: true, target: &workers},
		{name: "toKubernetesVersion", value: request.ToKubernetesVersion, target: &decoded.Target},
	} {
		if field.optional && field.value == "" {
			continue
		}
		v, err := version.Parse(field.value)
		if err != nil {
			return plan.Request{}, fmt.Errorf("the request's %s: %w", field.name, err)
		}
		*field.target = v
	}
	if !workers.IsZero() {
		decoded.Inventory.Groups = []plan.Group{{Name: workersGroup, Version: workers}}
		decoded.Inventory.WorkersUpgrading = workersUpgrading(&request.Cluster)
	}
	return decoded, nil
}

// workersUpgrading reports whether workers have begun to follow the control plane to its present version. Cluster API
// records the intent to call AfterWorkersUpgrade right after it has set the version of the control plane at which they
// stop, and removes it once they all have that version; so the intent is about the version that the control plane has.
func workersUpgrading(cluster *clusterv1.Cluster) bool {
	pending := strings.Split(cluster.Annotations[runtimev1.PendingHooksAnnotation], ",")
	return slices.Contains(pending, afterWorkersUpgrade)
}

// afterWorkersUpgrade is the hook's name as it stands in the annotation.
const afterWorkersUpgrade = "AfterWorkersUpgrade"

// encodeSteps spells versions that stand in the request as they stand there: Cluster API compares the workers' steps
// with the control plane's version as strings.
func encodeSteps(request *runtimehooksv1.GenerateUpgradePlanRequest, versions []version.Version) []runtimehooksv1.UpgradeStep {
	steps := make([]runtimehooksv1.UpgradeStep, 0, len(versions))
	for _, v := range versions {
		spelled := v.String()
		for _, given := range [...]string{request.ToKubernetesVersion, request.FromControlPlaneKubernetesVersion} {
			if "v"+strings.TrimPrefix(given, "v") == spelled {
				spelled = given
			}
		}
		steps = append(steps, runtimehooksv1.UpgradeStep{Version: spelled})
	}
	return steps
}

// log reports an answer when it differs from the last one about the same cluster: Cluster API asks again and again.
func (p *UpgradePlanner) log(ctx context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest, graph string, computed plan.Plan, err error) {
	cluster := client.ObjectKeyFromObject(&request.Cluster)
	summary := fmt.Sprintf("%q %v %v %v", graph, computed.ControlPlane, computed.Workers, err)
	logger, isNew := p.outcomes.logger(ctx, cluster, boundMessage(summary))
	if !isNew {
		return
	}
	logger = logger.WithValues(
		"cluster", boundMessage(cluster.String()), "graph", graph, "from", boundMessage(request.FromControlPlaneKubernetesVersion),
		"workersFrom", boundMessage(request.FromWorkersKubernetesVersion), "to", boundMessage(request.ToKubernetesVersion))
	if err != nil {
		logger.Info("Refused to plan an upgrade", "message", boundMessage(err.Error()))
		return
	}
	logger.Info("Planned an upgrade", "controlPlaneUpgrades", spell(computed.ControlPlane), "workersUpgrades", spell(computed.Workers))
}

func spell(versions []version.Version) []string {
	spelled := make([]string, 0, len(versions))
	for _, v := range versions {
		spelled = append(spelled, v.String())
	}
	return spelled
}
