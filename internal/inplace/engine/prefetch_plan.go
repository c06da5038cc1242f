package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// prefetchQuestion is about one machine.
type prefetchQuestion struct {
	key     types.NamespacedName
	to      version.Version
	timeout time.Duration
}

// aheadGroup is a group whose machines are prepared.
type aheadGroup struct {
	policy policy.Policy
	to     version.Version
}

// planPrefetch returns about which machines of a Cluster updaters are asked now, and forgets the
// machines that are not to be prepared any longer.
func (e *Engine) planPrefetch(
	ctx context.Context, cluster *clusterv1.Cluster, known *prefetchedCluster,
) ([]prefetchQuestion, error) {
	groups, err := e.readAheadGroups(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("finding the next versions of Cluster %s: %w",
			client.ObjectKeyFromObject(cluster), err)
	}
	machines := newMachineMetadataList()
	ofCluster := client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}
	err = e.Client.List(ctx, machines, client.InNamespace(cluster.Namespace), ofCluster,
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the Machines of Cluster %s: %w",
			client.ObjectKeyFromObject(cluster), err)
	}
	policies, byPolicy := []policy.Policy(nil), map[string][]inplace.Ahead{}
	kept := map[string]inplace.Prefetch{}
	for i := range machines.Items {
		m := &machines.Items[i]
		group, ok := groups[groupName(m)]
		if !ok || !m.DeletionTimestamp.IsZero() {
			continue
		}
		name := group.policy.Name
		if byPolicy[name] == nil {
			policies = append(policies, group.policy)
		}
		byPolicy[name] = append(byPolicy[name], inplace.Ahead{Name: m.Name, To: group.to})
		kept[m.Name] = known.machines[m.Name]
	}
	known.machines = kept
	var questions []prefetchQuestion
	for _, p := range policies {
		for _, m := range inplace.DecidePrefetch(byPolicy[p.Name], kept, p.Prefetch, e.Now()) {
			key := types.NamespacedName{Namespace: cluster.Namespace, Name: m.Name}
			questions = append(questions, prefetchQuestion{key, m.To, p.AttemptTimeout})
		}
	}
	return questions, nil
}

// groupName names the group of a Machine within its Cluster: by the MachineDeployment, and empty
// for the control plane. A Machine without a group has a name that no group has.
func groupName(m metav1.Object) string {
	if capi.IsControlPlane(m) {
		return ""
	}
	return cmp.Or(groupInIndex(m), unlabelled)
}

// readAheadGroups returns the groups of a Cluster whose machines are prepared, by groupName. A
// group that is paused, or about which policies disagree, is none.
func (e *Engine) readAheadGroups(
	ctx context.Context, cluster *clusterv1.Cluster,
) (map[string]aheadGroup, error) {
	policies, err := e.policies.In(ctx, cluster.Namespace)
	if err != nil {
		return nil, err //nolint:wrapcheck // It says what could not be listed.
	}
	o, manager, err := e.readPlanned(ctx, cluster)
	if err != nil || o.ControlPlane == nil {
		return nil, err
	}
	selected := selectAhead(o, policies)
	if len(selected) == 0 {
		return nil, nil
	}
	limits, err := e.groupLimits(ctx, o, manager)
	if err != nil {
		return nil, err
	}
	next, err := snapshot.ComputeNextVersions(o, limits, manager)
	if err != nil {
		return nil, err //nolint:wrapcheck // The caller names the Cluster.
	}
	groups := map[string]aheadGroup{}
	for _, g := range selected {
		switch to := next.Groups[g.Name]; {
		case g.ControlPlane && !next.ControlPlane.IsZero():
			groups[""] = aheadGroup{policy: g.policy, to: next.ControlPlane}
		case !g.ControlPlane && !to.IsZero():
			groups[g.Object] = aheadGroup{policy: g.policy, to: to}
		}
	}
	return groups, nil
}

// selectedGroup is a group, and the policy that has its machines prepared.
type selectedGroup struct {
	snapshot.UpdateGroup
	policy policy.Policy
}

// selectAhead returns the groups of a topology whose policy has machines prepared, and which are
// not paused.
func selectAhead(o snapshot.Objects, policies policy.Set) []selectedGroup {
	var selected []selectedGroup
	for _, g := range snapshot.UpdateGroups(o, nil) {
		object := client.Object(o.ControlPlane)
		if !g.ControlPlane {
			if g.MachineDeployment == nil || g.InTopology == nil {
				continue
			}
			object = g.MachineDeployment
		}
		p, err := policies.Select(g.Group)
		if err == nil && p.Prefetch > 0 && !isPaused(o.Cluster, object) {
			selected = append(selected, selectedGroup{g, p})
		}
	}
	return selected
}

// readPlanned reads what the plan of a Cluster is about, and whether windlass manager moves it.
func (e *Engine) readPlanned(
	ctx context.Context, cluster *clusterv1.Cluster,
) (o snapshot.Objects, manager bool, err error) {
	o.Cluster = cluster
	controlPlane := &unstructured.Unstructured{}
	found, err := e.readControlPlaneObject(ctx, cluster, controlPlane)
	if err != nil || !found {
		return o, false, err
	}
	o.ControlPlane = controlPlane
	var deployments clusterv1.MachineDeploymentList
	err = e.Live.List(ctx, &deployments, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name})
	if err != nil {
		return o, false, fmt.Errorf("listing MachineDeployments: %w", err)
	}
	for i := range deployments.Items {
		if deployments.Items[i].DeletionTimestamp.IsZero() {
			o.MachineDeployments = append(o.MachineDeployments, &deployments.Items[i])
		}
	}
	if snapshot.NeedsMachines(o) {
		machines, err := e.listMachines(ctx, client.ObjectKeyFromObject(cluster))
		if err != nil {
			return o, false, err
		}
		for i := range machines {
			o.Machines = append(o.Machines, &machines[i])
		}
	}
	manager, err = e.isManaged(ctx, cluster)
	return o, manager, err
}

// isManaged reports whether windlass manager moves a Cluster that is not paused.
func (e *Engine) isManaged(ctx context.Context, cluster *clusterv1.Cluster) (bool, error) {
	ref := cluster.Spec.InfrastructureRef
	if !ref.IsDefined() {
		return false, nil
	}
	infrastructure := &metav1.PartialObjectMetadata{}
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: ref.Name}
	if err := e.ReadProvided(ctx, ref.GroupKind(), key, infrastructure); err != nil {
		return false, client.IgnoreNotFound(err) //nolint:wrapcheck // It says what was read.
	}
	facts := capi.EngineFacts{Cluster: cluster, Infrastructure: infrastructure, Now: e.Now()}
	engine, _ := facts.Engine()
	return engine == v1alpha1.EngineManager, nil
}

// groupLimits returns how many minors the groups of the topology can be moved at once, where
// windlass manager plans each group by itself.
func (e *Engine) groupLimits(
	ctx context.Context, o snapshot.Objects, manager bool,
) ([]plan.Group, error) {
	var limits []plan.Group
	for _, g := range snapshot.UpdateGroups(o, nil) {
		if !manager || g.MachineDeployment == nil || g.InTopology == nil {
			continue
		}
		minors, err := e.GroupMinors(ctx, o.Cluster, g.MachineDeployment)
		if err != nil {
			return nil, err
		}
		most := uint32(max(minors, 0)) //nolint:gosec // The API bounds it to 10.
		limits = append(limits, plan.Group{Name: g.Name, MaxMinorStep: most})
	}
	return limits, nil
}

// askAhead asks the updaters that would update a machine whether they could begin, under an
// operation. The first that is not ready answers for all. readiness is nil if none is asked now:
// the machine is paused, or something changes it. machine is nil if it does not exist.
func (e *Engine) askAhead(
	ctx context.Context, q prefetchQuestion, operation string,
) (machine *clusterv1.Machine, readiness *inplace.Readiness, err error) {
	m, read := &clusterv1.Machine{}, e.Now()
	if err := e.Live.Get(ctx, q.key, m); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil, nil
		}
		return nil, nil, fmt.Errorf("reading Machine %s: %w", q.key, err)
	}
	if e.isLeftAlone(m) {
		return m, nil, nil
	}
	updaters, err := e.selectUpdaters(ctx, m.Namespace, m.Labels)
	if err != nil {
		return m, nil, err
	}
	r := &machineRun{Machine: e.NewMachine(m, read)}
	r.facts.Spec, _ = version.Parse(m.Spec.Version)
	r.Look(ctx)
	planned, objects := r.planVersion(ctx, q.to, updaters)
	if planned.Unknown != "" || planned.Refused != "" {
		return m, &inplace.Readiness{Unknown: planned.Unknown, Refused: planned.Refused}, nil
	}
	for _, step := range planned.Steps {
		if !step.Asks {
			continue
		}
		named := func(u v1alpha1.Updater) bool { return u.Name == step.Updater }
		i := slices.IndexFunc(updaters, named)
		command := Command{Operation: operation, Prefetch: true}
		answer, err := r.AskCanBegin(ctx, &updaters[i], objects, command)
		if err != nil || answer != (inplace.Readiness{}) {
			return m, &answer, err
		}
	}
	return m, &inplace.Readiness{}, nil
}

// isLeftAlone reports whether a Machine is not prepared now: it is paused, has no node, is being
// deleted, or something changes it.
func (e *Engine) isLeftAlone(m *clusterv1.Machine) bool {
	upgraded := e.keys.marks(m.Annotations).To != "" || has(m, v1alpha1.InPlaceUpgradeAnnotation)
	return upgraded || updatedByClusterAPI(m) != "" || has(m, clusterv1.PausedAnnotation) ||
		!m.DeletionTimestamp.IsZero() || !m.Status.NodeRef.IsDefined()
}
