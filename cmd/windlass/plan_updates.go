package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/inplace/preview"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/updaters"
	"github.com/windlass-dev/windlass/internal/updaters/remote"
	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// planUpdates is what says how a cluster's machines will be updated by a plan.
type planUpdates struct {
	ask   preview.Request
	facts doctor.Facts
	// controlPlaneMachine is one of the control plane's Machines, if there is one.
	controlPlaneMachine *clusterv1.Machine
	// problem says why nothing can be told; empty otherwise.
	problem string
}

// newPlanUpdates prepares the question.
func newPlanUpdates(facts doctor.Facts) *planUpdates {
	u := &planUpdates{facts: facts}
	u.ask = preview.Request{Policies: facts.Policies, Updaters: facts.Updaters, NamespaceLabels: facts.NamespaceLabels, Ask: openForPreview}
	for _, g := range snapshot.UpdateGroups(facts.Objects, facts.Class) {
		u.ask.Groups = append(u.ask.Groups, preview.Group{UpdateGroup: g})
	}
	return u
}

// hasExtension reports whether the class leaves plans to an extension: Windlass' own knows how far
// updaters move kubelets.
func (u *planUpdates) hasExtension() bool {
	return u.facts.Class != nil && u.facts.Class.Spec.Upgrade.External.GenerateUpgradePlanExtension != ""
}

// limitNote says for whom the stops of a plan are that updaters make necessary.
const limitNote = "stops that are there because updaters move kubelets a limited number of minors at once are made only where " +
	"the ClusterClass leaves plans to Windlass' extension; Cluster API's own planner does not know of updaters"

// limitWorkers returns the request with workers that stop as often as their updaters need. A limit that a flag gave stays.
func (r planRequest) limitWorkers() planRequest {
	if r.updates == nil || r.updates.problem != "" {
		return r
	}
	limits, fewest := r.updates.minorLimits()
	if fewest == 0 {
		return r
	}
	shared := r.request.Policy.Workers == plan.WorkersShared
	groups := slices.Clone(r.request.Inventory.Groups)
	for i := range groups {
		limit := limits[groupKey{groups[i].Kind == plan.MachinePool, groups[i].Name}]
		if r.updates.hasExtension() && shared {
			// Stock Cluster API asks the extension about all workers at once, so that the slowest group counts for all.
			limit = fewest
		}
		if groups[i].MaxMinorStep == 0 {
			groups[i].MaxMinorStep = limit
		}
	}
	before, errBefore := plan.Compute(r.request)
	r.request.Inventory.Groups = groups
	after, errAfter := plan.Compute(r.request)
	if shared && !r.updates.hasExtension() && errors.Join(errBefore, errAfter) == nil && !slices.Equal(before.Workers, after.Workers) {
		r.notes = append(slices.Clip(r.notes), limitNote)
	}
	return r
}

// groupKey names a group of an inventory.
type groupKey struct {
	pool bool
	name string
}

// minorLimits returns how many minors each limited group can move at once, and the fewest of them; 0 where there is none.
func (u *planUpdates) minorLimits() (limits map[groupKey]uint32, fewest uint32) {
	limits = map[groupKey]uint32{}
	for i, n := range preview.MinorLimits(u.ask) {
		g := u.ask.Groups[i]
		if g.ControlPlane || g.Name == "" || n <= 0 {
			continue
		}
		limit := uint32(min(n, maxMinorStep))
		limits[groupKey{name: g.Name}] = limit
		if fewest == 0 || limit < fewest {
			fewest = limit
		}
	}
	return limits, fewest
}

// maxMinorStep is above what any version skew policy allows.
const maxMinorStep = 1000

// preview asks how each group's machines will be updated. It adds the answers to a chain, and returns notes on them.
func (r planRequest) preview(ctx context.Context, p plan.Plan, chain *view.Chain) (notes []string) {
	u := r.updates
	if u == nil {
		return nil
	}
	chain.ShowUpdates = (len(u.ask.Policies) > 0 || u.problem == "") && len(p.Operations) > 0
	chain.Updates = poolUpdates(r.request.Inventory.Groups)
	inPlace := false
	for i, update := range u.answer(ctx, p) {
		inPlace = inPlace || len(update.Updaters) > 0
		if g := u.ask.Groups[i]; g.ControlPlane {
			chain.ControlPlaneUpdate = &update
		} else if g.Name != "" {
			chain.Updates[g.Name] = update
		}
	}
	switch {
	case u.problem != "":
		return []string{"how machines will be updated cannot be told: " + u.problem}
	case inPlace:
		return []string{"updaters were asked about a change of the version, and about what KubeadmControlPlane changes with it by itself; what patches of the ClusterClass change in templates for a new version is not known here. " +
			"`windlass doctor` says what else could make Cluster API replace machines"}
	default:
		return nil
	}
}

// poolUpdates says what there is to say about MachinePools.
func poolUpdates(groups []plan.Group) map[string]cover.Update {
	updates := map[string]cover.Update{}
	for _, g := range groups {
		if g.Kind == plan.MachinePool {
			updates[g.Name] = cover.Update{Outcome: cover.Unknown, Message: "unknown: that is for its provider; UpdatePolicies do not select MachinePools"}
		}
	}
	return updates
}

// answer returns the update of each group.
func (u *planUpdates) answer(ctx context.Context, p plan.Plan) []cover.Update {
	if u.problem == "" {
		return preview.Preview(ctx, u.withSteps(p))
	}
	unknown := cover.Update{Outcome: cover.Unknown, Message: "unknown: " + u.problem}
	return slices.Repeat([]cover.Update{unknown}, len(u.ask.Groups))
}

// withSteps is the request with the upgrades of each group.
func (u *planUpdates) withSteps(p plan.Plan) preview.Request {
	request := u.ask
	request.Groups = slices.Clone(u.ask.Groups)
	obstacles := doctor.Obstacles(u.facts)
	for i := range request.Groups {
		g := &request.Groups[i]
		g.More = u.besidesVersion(g.UpdateGroup)
		if o := obstacles[g.Subject]; o.Unknown {
			g.Doubt = o.Message
		} else {
			g.Obstacle = o.Message
		}
		if g.ControlPlane {
			g.Machine, g.Kubeadm = u.controlPlaneMachine, doctor.IsKubeadm(u.facts)
		}
		for _, o := range p.Operations {
			if g.ControlPlane && o.Kind == plan.ControlPlaneUpgrade || o.Kind == plan.WorkersUpgrade && g.Name != "" && slices.Contains(o.Groups, g.Name) {
				g.Steps = append(g.Steps, preview.Step{From: o.From, To: o.To})
			}
		}
	}
	return request
}

// besidesVersion says what may change with a group's version that updaters are not asked about; empty where nothing is known to.
func (u *planUpdates) besidesVersion(g snapshot.UpdateGroup) string {
	if patch := snapshot.VersionPatch(u.facts.Class, g); patch != "" {
		return fmt.Sprintf("patch %q of the ClusterClass may change more with the version", patch)
	}
	if u.facts.Class == nil && u.facts.Objects.Cluster.Spec.Topology.IsDefined() {
		return "its ClusterClass, whose patches may change more with the version, is not there to be read"
	}
	return ""
}

// openForPreview opens an updater to ask it what it covers, which takes nothing but its answer.
func openForPreview(_ context.Context, u v1alpha1.Updater) (port.Updater, error) {
	switch {
	case u.Spec.InProcess != nil:
		return openInProcessForPreview(*u.Spec.InProcess)
	case u.Spec.Remote == nil:
		return nil, errors.New("it is neither inProcess nor remote")
	case u.Spec.Remote.Protocol == v1alpha1.HandOverProtocol:
		return nil, errors.New("machines are handed over to it, so that a question would be an offer")
	case u.Spec.Remote.Service != nil:
		return nil, &preview.ElsewhereError{Reason: fmt.Sprintf("Service %s/%s is reached only from inside the management cluster", u.Spec.Remote.Service.Namespace, u.Spec.Remote.Service.Name)}
	default:
		opened, err := remote.New(updaters.ClientOptions{
			Name: u.Name, URL: u.Spec.Remote.URL, CABundle: u.Spec.Remote.CABundle, Timeout: time.Duration(u.Spec.Remote.TimeoutSeconds) * time.Second,
		}, time.Now)
		if err != nil {
			return nil, err
		}
		if isLoopback(u.Spec.Remote.URL) {
			return loopbackUpdater{Updater: opened, url: u.Spec.Remote.URL}, nil
		}
		return opened, nil
	}
}

func openInProcessForPreview(u v1alpha1.InProcessUpdater) (port.Updater, error) {
	switch {
	case u.Kind == v1alpha1.K8sdUpdater && u.K8sd != nil:
		return openK8sdForPreview(*u.K8sd)
	case u.Kind.ForHosts() && u.Host != nil:
		return openHostsForPreview(u.Kind, *u.Host)
	default:
		return nil, fmt.Errorf("this release does not know the kind %q", u.Kind)
	}
}

func isLoopback(address string) bool {
	parsed, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := parsed.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// loopbackUpdater is one with a loopback address, which means the machine, or the Pod, that the extension runs on: that nobody
// answers here says nothing about it.
type loopbackUpdater struct {
	port.Updater
	url string
}

func (l loopbackUpdater) CanUpdateMachine(ctx context.Context, r *runtimehooksv1.CanUpdateMachineRequest) (cover.Patches, error) {
	patches, err := l.Updater.CanUpdateMachine(ctx, r)
	return patches, l.elsewhere(err)
}

func (l loopbackUpdater) CanUpdateMachineSet(ctx context.Context, r *runtimehooksv1.CanUpdateMachineSetRequest) (cover.Patches, error) {
	patches, err := l.Updater.CanUpdateMachineSet(ctx, r)
	return patches, l.elsewhere(err)
}

func (l loopbackUpdater) elsewhere(err error) error {
	if failed, ok := errors.AsType[*updaters.Error](err); ok && failed.Class == updaters.Unreachable {
		return &preview.ElsewhereError{Reason: l.url + " is an address of the machine that the extension runs on, and here nobody answers there", Err: err}
	}
	return err
}

// noNodes are the nodes of nobody: an updater that is asked what it covers looks at none.
type noNodes struct{ port.Nodes }

// liveUpdates prepares the question for a Cluster of the management cluster. That something cannot be read keeps no plan from
// being made: it is said.
func liveUpdates(ctx context.Context, m management.Cluster, objects snapshot.Objects, class *clusterv1.ClusterClass) *planUpdates {
	facts := doctor.Facts{Live: true, Now: time.Now(), Objects: objects, Class: class}
	var err error
	if facts.Policies, err = m.UpdatePolicies(ctx, objects.Cluster.Namespace); err == nil && len(facts.Policies) > 0 {
		facts.Updaters, err = m.Updaters(ctx)
	}
	labelsKnown := false
	if err == nil && len(facts.Policies) > 0 {
		var unread error
		facts.NamespaceLabels, unread = m.NamespaceLabels(ctx, objects.Cluster.Namespace)
		labelsKnown = unread == nil
	}
	u := newPlanUpdates(facts)
	u.ask.NamespaceLabelsKnown = labelsKnown
	u.ask.Fetch = func(ctx context.Context, ref clusterv1.ContractVersionedObjectReference) (map[string]any, error) {
		object, err := m.Referenced(ctx, objects.Cluster.Namespace, ref)
		if err != nil {
			return nil, err
		}
		return object.Object, nil
	}
	if err == nil && len(facts.Policies) > 0 {
		u.controlPlaneMachine, err = firstControlPlaneMachine(ctx, m, client.ObjectKeyFromObject(objects.Cluster))
	}
	if err != nil {
		u.problem = err.Error()
	}
	return u
}

func firstControlPlaneMachine(ctx context.Context, m management.Cluster, key types.NamespacedName) (*clusterv1.Machine, error) {
	in := management.InCluster(key)
	in.Options = append(in.Options, client.HasLabels{clusterv1.MachineControlPlaneLabel})
	machines, err := management.List[*clusterv1.Machine, clusterv1.MachineList](ctx, m, "control plane Machines", in)
	if err != nil || len(machines) == 0 {
		return nil, err
	}
	return slices.MinFunc(machines, func(a, b *clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) }), nil
}

// holdNote names the groups whose upgrades annotations of the topology defer or hold; empty where none does.
func holdNote(cluster *clusterv1.Cluster) string {
	var deferred []string
	held := ""
	topology := cluster.Spec.Topology.Workers
	look := func(name string, annotations map[string]string) {
		if _, found := annotations[clusterv1.ClusterTopologyDeferUpgradeAnnotation]; found {
			deferred = append(deferred, name)
		}
		if _, found := annotations[clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation]; found && held == "" {
			held = name
		}
	}
	for i := range topology.MachineDeployments {
		look(topology.MachineDeployments[i].Name, topology.MachineDeployments[i].Metadata.Annotations)
	}
	for i := range topology.MachinePools {
		look(topology.MachinePools[i].Name, topology.MachinePools[i].Metadata.Annotations)
	}
	var parts []string
	if len(deferred) > 0 {
		parts = append(parts, fmt.Sprintf("the upgrade of %s is deferred (annotation %s)", strings.Join(deferred, ", "), clusterv1.ClusterTopologyDeferUpgradeAnnotation))
	}
	if held != "" {
		parts = append(parts, fmt.Sprintf("the upgrades of %s and of the groups after it are held (annotation %s)", held, clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", and ") + "; the plan is made as if they were not"
}
