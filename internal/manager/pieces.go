package manager

import (
	"context"
	"fmt"

	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	topologycluster "sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster"
	coreadmission "sigs.k8s.io/cluster-api/core/webhooks/admission"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
	"sigs.k8s.io/cluster-api/feature"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/windlass-dev/windlass/internal/hookclient"
)

// The pieces that are not, or need not be, Cluster API's own. All else is.

// topologyEngine names in logs whose controller of Clusters with a topology runs.
const topologyEngine = "cluster-api"

// topology is what the controller of Clusters with a topology is given.
type topology struct {
	manager       ctrl.Manager
	clusterCache  clustercache.ClusterCache
	runtimeClient runtimeclient.Client
	watchFilter   string
	options       controller.Options
}

// addTopology adds the controller of Clusters with a topology.
func addTopology(ctx context.Context, t topology) error {
	return (&topologycluster.Reconciler{
		Client: t.manager.GetClient(), APIReader: t.manager.GetAPIReader(), RuntimeClient: t.runtimeClient, ClusterCache: t.clusterCache, WatchFilterValue: t.watchFilter,
	}).SetupWithManager(ctx, t.manager, t.options)
}

// addClusterWebhooks adds admission of Clusters and ClusterClasses.
func addClusterWebhooks(mgr ctrl.Manager, clusters coreadmission.ClusterCacheReader) error {
	if err := (&coreadmission.ClusterClass{Client: mgr.GetClient()}).SetupWebhookWithManager(mgr); err != nil {
		return fmt.Errorf("adding the webhooks of ClusterClasses: %w", err)
	}
	if err := (&coreadmission.Cluster{Client: mgr.GetClient(), ClusterCacheReader: clusters}).SetupWebhookWithManager(mgr); err != nil {
		return fmt.Errorf("adding the webhooks of Clusters: %w", err)
	}
	return nil
}

// addRuntimeClient makes what calls runtime extensions. Without the feature gate there is none, and nobody asks for it. Calls of
// the extension that this process serves do not leave it.
func (b *builder) addRuntimeClient(context.Context) error {
	if !feature.Gates.Enabled(feature.RuntimeSDK) {
		return nil
	}
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		return fmt.Errorf("building the catalog of hooks: %w", err)
	}
	options := hookclient.Options{
		Catalog: catalog, Namespaces: b.mgr.GetClient(), CertFile: b.ClientCertFile, KeyFile: b.ClientKeyFile, Metrics: crmetrics.Registry,
	}
	if b.hooks != nil {
		options.Local = map[string][]server.ExtensionHandler{b.ExtensionConfig: b.hooks.Handlers()}
	}
	caller, err := hookclient.New(options)
	if err != nil {
		return fmt.Errorf("making the client of runtime extensions: %w", err)
	}
	if err := b.mgr.Add(caller); err != nil {
		return fmt.Errorf("adding the client of runtime extensions: %w", err)
	}
	b.runtimeClient = caller
	return nil
}
