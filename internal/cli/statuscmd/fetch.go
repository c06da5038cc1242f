package statuscmd

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/status"
)

// fetchFacts reads the objects that a status is computed from.
func fetchFacts(ctx context.Context, m management.Cluster, key types.NamespacedName) (status.Facts, error) {
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

// fetchLock reads the control plane's lock into f where an annotation asks for the upgrade of one of its machines. Who may read the Cluster may often not
// read ConfigMaps: then it is left out.
func fetchLock(ctx context.Context, m management.Cluster, f *status.Facts) error {
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
	return ignoreForbidden(management.IgnoreMissing(err))
}

// fetchUpgradeContext reads what says how the upgrade of a Cluster with a managed topology goes on, and who holds it, into f. Who may
// read the Cluster may often not read all of this: what is forbidden is left out, and for the plan that is said.
func fetchUpgradeContext(ctx context.Context, m management.Cluster, f *status.Facts) error {
	if f.Upgrade == nil {
		return nil
	}
	if err := fetchPlanSource(ctx, m, f); err != nil {
		return err
	}
	if err := fetchEngine(ctx, m, f); err != nil {
		return err
	}
	var err error
	f.Upgrade.Gates, err = m.UpgradeGates(ctx, f.Cluster.Namespace)
	if err := ignoreForbidden(err); err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(f.Cluster)
	f.Upgrade.MachineSets, err = management.List[*clusterv1.MachineSet, clusterv1.MachineSetList](
		ctx, m, "MachineSets", management.InCluster(key))
	if err := ignoreForbidden(management.IgnoreMissing(err)); err != nil {
		return err
	}
	f.Upgrade.Events, err = listEvents(ctx, m, f.Cluster)
	return ignoreForbidden(management.IgnoreMissing(err))
}

// fetchEngine reads which engine says that it drives the Cluster.
func fetchEngine(ctx context.Context, m management.Cluster, f *status.Facts) error {
	f.Upgrade.Engine = ""
	ref := f.Cluster.Spec.InfrastructureRef
	if !ref.IsDefined() {
		return nil
	}
	object, err := m.Referenced(ctx, f.Cluster.Namespace, ref)
	if err == nil {
		f.Upgrade.Engine = object.GetAnnotations()[v1alpha1.EngineAnnotation]
	}
	return ignoreForbidden(management.IgnoreMissing(err))
}

// fetchPlanSource finds where plans of the Cluster come from, as windlass plan does. What that command would refuse is no error here.
func fetchPlanSource(ctx context.Context, m management.Cluster, f *status.Facts) error {
	f.Upgrade.Source, f.Upgrade.SourceProblem = nil, ""
	class, graphs, err := m.Source(ctx, f.Cluster)
	if ignoreForbidden(management.IgnoreMissing(err)) != nil {
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

// listEvents returns the Events that are about a Cluster.
func listEvents(ctx context.Context, m management.Cluster, cluster *clusterv1.Cluster) ([]corev1.Event, error) {
	found, err := management.List[*corev1.Event, corev1.EventList](ctx, m, "Events", management.Scope{
		Where: management.InCluster(client.ObjectKeyFromObject(cluster)).Where,
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

// ignoreForbidden returns nil for the error of an object that the user may not read.
func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}
