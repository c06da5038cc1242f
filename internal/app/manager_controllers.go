package app

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/featuregate"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	"sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterclass"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourceset"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourcesetbinding"
	"sigs.k8s.io/cluster-api/core/reconcilers/extensionconfig"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinepool"
	topologymachinedeployment "sigs.k8s.io/cluster-api/core/reconcilers/topology/machinedeployment"
	topologymachineset "sigs.k8s.io/cluster-api/core/reconcilers/topology/machineset"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/windlass-dev/windlass/internal/patches"
)

const (
	// topologyFinalizerConcurrency is that of the controllers that delete the templates of MachineDeployments and MachineSets.
	topologyFinalizerConcurrency = 25
	// migrationConcurrency keeps the migration of stored objects from flooding the API server.
	migrationConcurrency = 1
)

// addCaches adds the connections to workload clusters, and a cache of the metadata of all Secrets: the manager's own holds only those
// of clusters.
func (b *builder) addCaches(ctx context.Context) error {
	secretClient, err := setup.CreateSecretCachingClient(b.mgr)
	if err != nil {
		return fmt.Errorf("making the client for kubeconfigs: %w", err)
	}
	b.clusterCache, err = clustercache.SetupWithManager(ctx, b.mgr, clustercache.Options{
		SecretClient: secretClient, Cache: setup.ClusterCacheCacheOptions(), WatchFilterValue: b.WatchFilter,
		Client: setup.ClusterCacheClientOptions(sourceName, b.ClusterQPS, b.ClusterBurst),
	}, concurrency(b.Concurrency.ClusterCache))
	if err != nil {
		return fmt.Errorf("adding the cache of workload clusters: %w", err)
	}
	options := cache.Options{
		Scheme: b.mgr.GetScheme(), Mapper: b.mgr.GetRESTMapper(), HTTPClient: b.mgr.GetHTTPClient(), SyncPeriod: &b.SyncPeriod,
		DefaultTransform: secretMetadata,
	}
	if b.WatchNamespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{b.WatchNamespace: {}}
	}
	if b.secrets, err = cache.New(b.mgr.GetConfig(), options); err != nil {
		return fmt.Errorf("making the cache of Secrets' metadata: %w", err)
	}
	if err := b.mgr.Add(b.secrets); err != nil {
		return fmt.Errorf("adding the cache of Secrets' metadata: %w", err)
	}
	return nil
}

// secretMetadata refuses to cache anything but the metadata of Secrets, so that no content is ever kept by mistake.
func secretMetadata(object any) (any, error) {
	metadata, ok := object.(*metav1.PartialObjectMetadata)
	if !ok || metadata.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Secret") {
		return nil, fmt.Errorf("the cache of Secrets' metadata got a %T", object)
	}
	metadata.SetManagedFields(nil)
	return metadata, nil
}

func concurrency(n int) controller.Options { return controller.Options{MaxConcurrentReconciles: n} }

// part is one controller.
type part struct {
	name string
	// off is set where a feature gate leaves it out.
	off bool
	add func() error
}

// addControllers adds every controller of Cluster API's core manager.
func (b *builder) addControllers(ctx context.Context) error {
	withoutTopology := !feature.Gates.Enabled(feature.ClusterTopology)
	c, apiReader, n := b.mgr.GetClient(), b.mgr.GetAPIReader(), b.Concurrency
	parts := []part{
		{name: "CRDMigrator", add: func() error {
			return (&crdmigrator.CRDMigrator{
				Client: c, APIReader: apiReader, SkipCRDMigrationPhases: b.checked.skipMigrationPhases, Config: computeMigrations(feature.Gates.Enabled),
			}).SetupWithManager(ctx, b.mgr, concurrency(migrationConcurrency))
		}},
		{name: "ClusterClass", off: withoutTopology, add: func() error {
			return (&clusterclass.Reconciler{Client: c, RuntimeClient: b.runtimeClient, WatchFilterValue: b.WatchFilter}).
				SetupWithManager(ctx, b.mgr, concurrency(n.ClusterClass))
		}},
		{name: "ClusterTopology", off: withoutTopology, add: func() error { return b.addTopology(ctx) }},
		{name: "MachineDeploymentTopology", off: withoutTopology, add: func() error {
			return (&topologymachinedeployment.Reconciler{Client: c, APIReader: apiReader, WatchFilterValue: b.WatchFilter}).
				SetupWithManager(ctx, b.mgr, concurrency(topologyFinalizerConcurrency))
		}},
		{name: "MachineSetTopology", off: withoutTopology, add: func() error {
			return (&topologymachineset.Reconciler{Client: c, APIReader: apiReader, WatchFilterValue: b.WatchFilter}).
				SetupWithManager(ctx, b.mgr, concurrency(topologyFinalizerConcurrency))
		}},
		{name: "ExtensionConfig", off: !feature.Gates.Enabled(feature.RuntimeSDK), add: func() error {
			return (&extensionconfig.Reconciler{
				Client: c, APIReader: apiReader, RuntimeClient: b.runtimeClient, PartialSecretCache: b.secrets, WatchFilterValue: b.WatchFilter,
			}).SetupWithManager(ctx, b.mgr, concurrency(n.ExtensionConfig))
		}},
		{name: "Cluster", add: func() error {
			return (&cluster.Reconciler{
				Client: patches.NewClient(c, apiReader, &clusterv1.Cluster{}), APIReader: apiReader, ClusterCache: b.clusterCache, WatchFilterValue: b.WatchFilter, RemoteConnectionGracePeriod: b.ConnectionGracePeriod,
			}).SetupWithManager(ctx, eventManager{b.mgr, clusterEvents()}, concurrency(n.Cluster))
		}},
	}
	for _, p := range append(parts, b.machineControllers(ctx)...) {
		if p.off {
			continue
		}
		if err := p.add(); err != nil {
			return fmt.Errorf("adding the controller %s: %w", p.name, err)
		}
	}
	return nil
}

// machineControllers are those of machines, their groups, and what is applied to new clusters.
func (b *builder) machineControllers(ctx context.Context) []part {
	c, apiReader, n := b.mgr.GetClient(), b.mgr.GetAPIReader(), b.Concurrency
	machines := newPace()
	return []part{
		{name: "Machine", add: func() error {
			return (&machine.Reconciler{
				Client: patches.NewClient(c, apiReader, &clusterv1.Machine{}), APIReader: apiReader, ClusterCache: b.clusterCache, RuntimeClient: b.runtimeClient, WatchFilterValue: b.WatchFilter,
				RemoteConditionsGracePeriod: b.ConditionsGracePeriod,
				AdditionalSyncMachineLabels: b.checked.labels, AdditionalSyncMachineAnnotations: b.checked.annotations,
			}).SetupWithManager(
				ctx, eventManager{b.mgr, machineEvents(machines)}, machines.options(n.Machine))
		}},
		{name: "MachineSet", add: func() error {
			return b.addMachineSets(ctx)
		}},
		{name: "MachineDeployment", add: func() error {
			return b.addMachineDeployments(ctx)
		}},
		{name: "MachinePool", off: !feature.Gates.Enabled(feature.MachinePool), add: func() error {
			return (&machinepool.Reconciler{Client: c, APIReader: apiReader, ClusterCache: b.clusterCache, WatchFilterValue: b.WatchFilter}).
				SetupWithManager(ctx, b.mgr, concurrency(n.MachinePool))
		}},
		{name: "ClusterResourceSet", add: func() error {
			return (&clusterresourceset.Reconciler{Client: c, ClusterCache: b.clusterCache, WatchFilterValue: b.WatchFilter}).
				SetupWithManager(ctx, b.mgr, concurrency(n.ClusterResourceSet), b.secrets)
		}},
		{name: "ClusterResourceSetBinding", add: func() error {
			return (&clusterresourcesetbinding.Reconciler{Client: c, WatchFilterValue: b.WatchFilter}).
				SetupWithManager(ctx, b.mgr, concurrency(n.ClusterResourceSet))
		}},
		{name: "MachineHealthCheck", add: func() error {
			return (&machinehealthcheck.Reconciler{Client: c, ClusterCache: b.clusterCache, WatchFilterValue: b.WatchFilter}).
				SetupWithManager(ctx, b.mgr, concurrency(n.MachineHealthCheck))
		}},
	}
}

// computeMigrations lists the kinds whose stored objects are brought to the version in which they are stored now. The rights for it
// are those of Cluster API's core manager on these CustomResourceDefinitions.
func computeMigrations(enabled func(featuregate.Feature) bool) map[client.Object]crdmigrator.ByObjectConfig {
	withStatus := crdmigrator.ByObjectConfig{UseStatusForStorageVersionMigration: true}
	out := map[client.Object]crdmigrator.ByObjectConfig{
		&addonsv1.ClusterResourceSetBinding{}: {},
		&addonsv1.ClusterResourceSet{}:        withStatus,
		&clusterv1.Cluster{}:                  withStatus,
		&clusterv1.MachineDeployment{}:        withStatus,
		&clusterv1.MachineDrainRule{}:         {},
		&clusterv1.MachineHealthCheck{}:       withStatus,
		&clusterv1.Machine{}:                  withStatus,
		&clusterv1.MachineSet{}:               withStatus,
		&ipamv1.IPAddress{}:                   {},
		&ipamv1.IPAddressClaim{}:              withStatus,
	}
	if enabled(feature.ClusterTopology) {
		out[&clusterv1.ClusterClass{}] = withStatus
	}
	if enabled(feature.RuntimeSDK) {
		out[&runtimev1.ExtensionConfig{}] = withStatus
	}
	if enabled(feature.MachinePool) {
		out[&clusterv1.MachinePool{}] = withStatus
	}
	return out
}
