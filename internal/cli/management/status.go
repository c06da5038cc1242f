package management

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/status"
)

// StatusFacts reads the objects that a status is computed from.
func (m Cluster) StatusFacts(ctx context.Context, key types.NamespacedName) (status.Facts, error) {
	f := status.Facts{Prefix: m.Prefix}
	var err error
	if f.Objects, err = m.AllObjects(ctx, key); err != nil {
		return f, err
	}
	if f.Cluster.Spec.Topology.IsDefined() {
		f.Upgrade = &status.UpgradeFacts{}
	}
	f.Policies, err = m.UpdatePolicies(ctx, key.Namespace)
	return f, err
}

// ReadLock reads the control plane's lock into f where an annotation asks for the upgrade of one of its machines. Who may read the Cluster may often not
// read ConfigMaps: then it is left out.
func (m Cluster) ReadLock(ctx context.Context, f *status.Facts) error {
	marked := func(c *clusterv1.Machine) bool {
		controlPlane := capi.IsControlPlane(c)
		return controlPlane && slices.ContainsFunc(slices.Collect(maps.Keys(c.Annotations)), func(key string) bool {
			return key == v1alpha1.InPlaceUpgradeAnnotation || strings.HasPrefix(key, m.Prefix)
		})
	}
	if !slices.ContainsFunc(f.Machines, marked) {
		return nil
	}
	lock := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: f.Cluster.Namespace, Name: f.Cluster.Name + v1alpha1.InPlaceUpgradeLockSuffix}
	err := m.Object(ctx, "ConfigMap", key, lock)
	if err == nil {
		f.Lock = lock
	}
	return IgnoreForbidden(IgnoreMissing(err))
}

// ReadUpgradeContext reads which engine drives a Cluster, and for one with a managed topology what
// says how its upgrade goes on, and who holds it, into f. Who may read the Cluster may often not
// read all of this: what is forbidden is left out, and for the plan that is said.
func (m Cluster) ReadUpgradeContext(ctx context.Context, f *status.Facts) error {
	var err error
	f.Around, err = m.Around(ctx, f.Objects)
	if err := IgnoreForbidden(IgnoreMissing(err)); err != nil || !f.HasContext() {
		return err
	}
	if err := m.readRollouts(ctx, f); err != nil || f.Upgrade == nil {
		return err
	}
	if err := m.readPlanSource(ctx, f); err != nil {
		return err
	}
	f.Upgrade.Gates, err = m.UpgradeGates(ctx, f.Cluster.Namespace)
	if err := IgnoreForbidden(err); err != nil {
		return err
	}
	f.Upgrade.Events, err = m.clusterEvents(ctx, f.Cluster)
	return IgnoreForbidden(IgnoreMissing(err))
}

// readRollouts reads the engine, when it was last seen, and MachineSets where they count.
func (m Cluster) readRollouts(ctx context.Context, f *status.Facts) error {
	facts, err := m.engineFacts(ctx, f.Cluster)
	if err != nil {
		return err
	}
	if facts.Leases, err = m.managerLeases(ctx); err != nil {
		return err
	}
	engine, known := facts.Engine()
	f.Rollouts.Engine, f.Rollouts.SilentSince = engine, time.Time{}
	f.Rollouts.EngineSeen = facts.LastSeen()
	if engine == v1alpha1.EngineManager || !known {
		f.Rollouts.SilentSince = facts.SilentSince(engine)
	}
	if f.Upgrade == nil && f.Rollouts.Engine != v1alpha1.EngineManager {
		return nil
	}
	in := InCluster(client.ObjectKeyFromObject(f.Cluster))
	f.Rollouts.MachineSets, err = List[*clusterv1.MachineSet, clusterv1.MachineSetList](
		ctx, m, "MachineSets", in)
	return IgnoreForbidden(IgnoreMissing(err))
}

// Engine reads which engine drives a Cluster. It is empty for stock Cluster API, and if that is
// unknown.
func (m Cluster) Engine(ctx context.Context, cluster *clusterv1.Cluster) (string, error) {
	engine, _, err := m.FindEngine(ctx, cluster)
	return engine, err
}

// FindEngine reads what Engine does. known reports whether an empty value means stock Cluster API.
// What nobody may read tells nothing.
func (m Cluster) FindEngine(
	ctx context.Context, cluster *clusterv1.Cluster,
) (engine string, known bool, err error) {
	facts, err := m.engineFacts(ctx, cluster)
	if err != nil {
		return "", false, err
	}
	if engine, known = facts.Engine(); known {
		return engine, known, nil
	}
	if facts.Leases, err = m.managerLeases(ctx); err != nil {
		return "", false, err
	}
	engine, known = facts.Engine()
	return engine, known, nil
}

// engineFacts reads what tells the engine of a Cluster, but for the leases, which not all need.
func (m Cluster) engineFacts(
	ctx context.Context, cluster *clusterv1.Cluster,
) (capi.EngineFacts, error) {
	facts := capi.EngineFacts{Cluster: cluster, Now: time.Now()}
	ref := cluster.Spec.InfrastructureRef
	if !ref.IsDefined() || !cluster.Spec.Topology.IsDefined() {
		return facts, nil
	}
	object, err := m.Referenced(ctx, cluster.Namespace, ref)
	if err == nil {
		facts.Infrastructure = object
	}
	return facts, IgnoreForbidden(IgnoreMissing(err))
}

// managerLeases reads the leases of core managers; none if nobody may read them.
func (m Cluster) managerLeases(ctx context.Context) ([]*coordinationv1.Lease, error) {
	leases, err := List[*coordinationv1.Lease, coordinationv1.LeaseList](ctx, m, "Leases", Scope{
		Options: []client.ListOption{client.MatchingFields{"metadata.name": capi.ManagerLease}},
	})
	return leases, IgnoreForbidden(IgnoreMissing(err))
}

// readPlanSource finds where plans of the Cluster come from, as windlass plan does. What that command would refuse is no error here.
func (m Cluster) readPlanSource(ctx context.Context, f *status.Facts) error {
	f.Upgrade.Source, f.Upgrade.SourceProblem = nil, ""
	class, graphs, err := m.Source(ctx, f.Cluster)
	if IgnoreForbidden(IgnoreMissing(err)) != nil {
		return err
	}
	if err == nil {
		f.Upgrade.Source, _, err = snapshot.Source(f.Cluster, class, graphs)
	}
	if err != nil {
		f.Upgrade.Source, f.Upgrade.SourceProblem = nil, err.Error()
	}
	return nil
}

// clusterEvents returns the Events that are about a Cluster.
func (m Cluster) clusterEvents(ctx context.Context, cluster *clusterv1.Cluster) ([]corev1.Event, error) {
	found, err := List[*corev1.Event, corev1.EventList](ctx, m, "Events", Scope{
		Where: InCluster(client.ObjectKeyFromObject(cluster)).Where,
		Options: []client.ListOption{
			client.InNamespace(cluster.Namespace),
			client.MatchingFields{"involvedObject.kind": "Cluster", "involvedObject.name": cluster.Name},
		},
	})
	var about []corev1.Event
	for _, e := range found {
		if e.InvolvedObject.UID == cluster.UID {
			about = append(about, *e)
		}
	}
	return about, err
}

// IgnoreForbidden returns nil for the error of an object that the user may not read.
func IgnoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}
