package app

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/controllers"
	"github.com/windlass-dev/windlass/internal/eventlimit"
	"github.com/windlass-dev/windlass/internal/guard/guardwebhook"
	"github.com/windlass-dev/windlass/internal/hookclient"
	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/topology"
	"github.com/windlass-dev/windlass/internal/workload"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// The pieces that are not Cluster API's own. All else is.

// managerEvents names this program in Events.
const managerEvents = "windlass"

// addTopology adds the controller of Clusters with a topology: ours.
func (b *builder) addTopology(ctx context.Context) error {
	if b.hooks == nil && b.limits != nil {
		if err := b.mgr.Add(&firstRead{cache: b.mgr.GetCache(), timeout: cacheSyncTimeout}); err != nil {
			return fmt.Errorf("adding what reads UpdatePolicies: %w", err)
		}
	}
	options := b.topologyOptions()
	var err error
	if options.Gates, err = seesGates(ctx, b.mgr.GetRESTMapper(), b.mgr.GetAPIReader(), b.mgr.GetLogger()); err != nil {
		return err
	}
	return topology.SetUpController(ctx, b.mgr, options, concurrency(b.Concurrency.ClusterTopology))
}

// seesGates reports whether UpgradeGates can be watched: they are installed, and this program may list
// them. A watch that nobody allows would keep this program from starting.
func seesGates(ctx context.Context, mapper meta.RESTMapper, live client.Reader, log logr.Logger) (bool, error) {
	kind := v1alpha1.GroupVersion.WithKind("UpgradeGate")
	_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err == nil {
		err = live.List(ctx, &v1alpha1.UpgradeGateList{}, client.Limit(1))
	}
	if apierrors.IsForbidden(err) {
		log.Info("This program may not list UpgradeGates, so an approval counts when a hook is asked next, within a minute. "+
			"To have it count at once, allow list and watch as config/manager/role.yaml does, and restart this program", "error", err.Error())
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for UpgradeGates: %w", err)
	}
	return true, nil
}

func (b *builder) topologyOptions() topology.Options {
	return topology.Options{
		Client: b.mgr.GetClient(), APIReader: b.mgr.GetAPIReader(), Runtime: b.runtimeClient, Recorder: eventlimit.For(b.mgr, managerEvents), Now: time.Now,
		Limits: b.limits, OwnPlanner: hookserver.GenerateUpgradePlanHandler + "." + b.ExtensionConfig, OwnGraph: b.graphOf,
		WatchFilter: b.WatchFilter,
		// Its answers are bounded, those to Cluster API's clients of workload clusters are not.
		ControlPlaneNodes: workload.NewFacts(b.mgr.GetAPIReader(), time.Now).ControlPlaneNodes,
	}
}

// graphOf returns the UpgradeGraph that serves a Cluster, by the settings of this project's ExtensionConfig.
func (b *builder) graphOf(ctx context.Context, cluster *clusterv1.Cluster) (plan.Graph, error) {
	config := &runtimev1.ExtensionConfig{}
	if err := b.mgr.GetClient().Get(ctx, client.ObjectKey{Name: b.ExtensionConfig}, config); err != nil {
		return plan.Graph{}, fmt.Errorf("getting ExtensionConfig %s: %w", b.ExtensionConfig, err)
	}
	return hookserver.GraphOf(ctx, hookserver.GraphsFrom(b.mgr.GetClient()), cluster, config.Spec.Settings)
}

// addClusterWebhooks adds admission of Clusters and ClusterClasses: ours, which has Cluster API's decide about all but versions.
func (b *builder) addClusterWebhooks() error {
	if err := (&guardwebhook.ClusterClass{Client: b.mgr.GetClient()}).SetupWithManager(b.mgr); err != nil {
		return fmt.Errorf("adding the webhooks of ClusterClasses: %w", err)
	}
	validator := &guardwebhook.Cluster{Client: b.mgr.GetClient(), Policies: b.policiesIn()}
	if err := validator.SetupWithManager(b.mgr, b.clusterCache); err != nil {
		return fmt.Errorf("adding the webhooks of Clusters: %w", err)
	}
	return nil
}

// addRuntimeClient makes what calls runtime extensions: ours. Calls of the extension that this process serves do not leave it. A
// marked Machine that no registered extension updates is updated by this process. Without the feature gate it knows no extensions.
func (b *builder) addRuntimeClient(context.Context) error {
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		return fmt.Errorf("building the catalog of hooks: %w", err)
	}
	options := hookclient.Options{
		Catalog: catalog, Namespaces: b.mgr.GetClient(), CertFile: b.ClientCertFile, KeyFile: b.ClientKeyFile, Metrics: crmetrics.Registry,
		Fallback: []server.ExtensionHandler{hookserver.MarkedMachines(b.updates)},
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
	if feature.Gates.Enabled(feature.RuntimeSDK) {
		return b.addConflicts(caller) // The controller of ExtensionConfigs makes it ready.
	}
	return caller.WarmUp(&runtimev1.ExtensionConfigList{})
}

// addConflicts adds what says that extensions are in each other's way.
func (b *builder) addConflicts(caller *hookclient.Client) error {
	return (&controllers.ExtensionConfigReconciler{
		Client: b.mgr.GetClient(), Recorder: eventlimit.For(b.mgr, managerEvents), Now: time.Now,
		Conflicts: func(ctx context.Context) (map[string][]string, bool, error) {
			if !caller.IsReady() {
				return nil, false, nil
			}
			found, err := caller.Conflicts(ctx)
			conflicts := make(map[string][]string, len(found))
			for _, c := range found {
				conflicts[c.Hook] = c.Extensions
			}
			return conflicts, true, err
		},
	}).SetupWithManager(b.mgr)
}
