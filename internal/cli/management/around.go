package management

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// Around reads what tells why the upgrade of a Cluster does not continue. It makes no request for a Cluster
// whose objects show no sign of that. With an error, it returns what it has read.
func (m Cluster) Around(ctx context.Context, o snapshot.Objects) (a snapshot.Around, err error) {
	if len(snapshot.BlockingHooks(o.Cluster)) > 0 {
		if a.Extensions, err = m.ExtensionConfigs(ctx); err != nil {
			return a, err
		}
		if a.NamespaceLabels, err = m.NamespaceLabels(ctx, o.Cluster.Namespace); err != nil {
			a.NamespaceLabels = nil
			return a, err
		}
		if a.NamespaceLabels == nil {
			a.NamespaceLabels = map[string]string{}
		}
	}
	if snapshot.NeedsProvider(o) {
		a.Provider = m.ProviderVersion(ctx, RKE2Provider)
	}
	if snapshot.NeedsHealthChecks(o) {
		if a.Policies, err = m.UpdatePolicies(ctx, o.Cluster.Namespace); err != nil {
			return a, err
		}
		// Without them, the message only names no MachineHealthCheck.
		a.HealthChecks, err = m.HealthChecks(ctx, client.ObjectKeyFromObject(o.Cluster))
		if err := IgnoreForbidden(err); err != nil {
			return a, err
		}
	}
	if _, _, lacks := snapshot.LacksSuffix(o); !lacks {
		return a, nil
	}
	engine, err := m.Engine(ctx, o.Cluster)
	if err != nil {
		return a, err
	}
	a.OwnEngine = engine == v1alpha1.EngineManager
	core := client.MatchingLabels{clusterv1.ProviderNameLabel: CoreProvider.Name}
	a.Core, err = ListKnown[appsv1.Deployment, appsv1.DeploymentList](
		ctx, m, "Deployments", Scope{Options: []client.ListOption{core}})
	return a, err
}

// HealthChecks reads the MachineHealthChecks of a Cluster.
func (m Cluster) HealthChecks(
	ctx context.Context, of types.NamespacedName,
) (checks []*clusterv1.MachineHealthCheck, err error) {
	found, err := List[*clusterv1.MachineHealthCheck, clusterv1.MachineHealthCheckList](
		ctx, m, "MachineHealthChecks", InNamespace(of.Namespace))
	for _, h := range found {
		if h.Spec.ClusterName == of.Name {
			checks = append(checks, h)
		}
	}
	return checks, IgnoreMissing(err)
}
