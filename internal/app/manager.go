package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	goruntime "runtime"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/setup"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/apiwarnings"
	"sigs.k8s.io/cluster-api/util/index"
	"sigs.k8s.io/cluster-api/version"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	crwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/diagnostics"
	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/httplimit"
	"github.com/windlass-dev/windlass/internal/lease"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/recordlimit"
	"github.com/windlass-dev/windlass/internal/topology"
)

const (
	// sourceName names Cluster API's core manager in metrics and to workload clusters.
	sourceName = "cluster-api-controller-manager"

	// fieldManager is what the API server calls the owner of fields that are written without one: the name of the program in the User-Agent,
	// which is manager for Cluster API's. Under another name the fields would have two owners after an exchange of the two.
	fieldManager = "manager"

	// cacheSyncTimeout is above the default of 2 minutes for management clusters with many objects.
	cacheSyncTimeout = 5 * time.Minute
)

// RunManager runs the manager until ctx is cancelled. It sets the process-wide converter of API versions, so there can be one in a process.
func RunManager(ctx context.Context, restConfig *rest.Config, o ManagerOptions) error {
	checked, err := o.check()
	if err != nil {
		return err
	}
	if err := checkGates(feature.Gates.Enabled); err != nil {
		return err
	}
	restConfig = o.completeRESTConfig(restConfig)
	if err := version.CheckKubernetesVersion(restConfig, minimumKubernetesVersion()); err != nil {
		return fmt.Errorf("looking at the management cluster at %s: %w", restConfig.Host, err)
	}
	lock, err := o.newLock(restConfig)
	if err != nil {
		return err
	}
	if lock != nil {
		o.Extension.Held = lock.Held
	}
	mgr, err := o.newManager(ctx, restConfig, lock)
	if err != nil {
		return err
	}
	if err := o.addServers(ctx, mgr); err != nil {
		return err
	}
	if err := index.AddDefaultIndexes(ctx, mgr); err != nil {
		return fmt.Errorf("adding the indexes: %w", err)
	}
	b := &builder{ManagerOptions: o, checked: checked, mgr: mgr}
	for _, add := range []func(context.Context) error{
		func(context.Context) error { return AddRestoredWatch(mgr, o.WatchNamespace) },
		b.addCollector, b.addExtension, b.addRuntimeClient, b.addCaches, b.addControllers, b.addWebhooks,
	} {
		if err := add(ctx); err != nil {
			return err
		}
	}
	klog.FromContext(ctx).Info("Starting the manager", "version", o.Version)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

// builder adds the parts to a manager, in order; later ones use what earlier ones have left in it.
type builder struct {
	ManagerOptions
	checked checked
	mgr     ctrl.Manager

	hooks         *hookserver.Server       // nil where the extension is not served here
	limits        topology.Limits          // nil where nothing is updated in place
	updates       hookserver.MarkedUpdates // never nil
	runtimeClient runtimeclient.Client
	clusterCache  clustercache.ClusterCache
	secrets       cache.Cache
	crds          *installation // of UpdatePolicies; see policies
}

func minimumKubernetesVersion() string {
	if feature.Gates.Enabled(feature.ClusterTopology) {
		return version.MinimumKubernetesVersionClusterTopology
	}
	return version.MinimumKubernetesVersion
}

func (o ManagerOptions) completeRESTConfig(in *rest.Config) *rest.Config {
	out := rest.CopyConfig(in)
	out.QPS, out.Burst = o.QPS, o.Burst
	out.UserAgent = fmt.Sprintf("%s/%s %s (%s/%s) windlass", fieldManager, o.Version, sourceName, goruntime.GOOS, goruntime.GOARCH)
	out.WarningHandler = apiwarnings.DefaultHandler(klog.Background().WithName("API Server Warning"))
	return out
}

func (o ManagerOptions) newManager(
	ctx context.Context, restConfig *rest.Config, lock *lease.Lock,
) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	tlsOptions, metrics, err := diagnostics.Options(o.Diagnostics)
	if err != nil {
		return nil, fmt.Errorf("reading the TLS flags: %w", err)
	}
	if o.ContentionProfiling {
		goruntime.SetBlockProfileRate(1)
	}
	objects := setup.ManagerCacheOptions(scheme, sourceName, o.WatchNamespace, o.SyncPeriod)
	objects.ByObject[&clusterv1.Machine{}] = cache.ByObject{Transform: managerMachine(o.Extension.InPlaceUpgrades)}
	objects.DefaultTransform = trimMachineObject
	options := ctrl.Options{
		Controller: config.Controller{
			UsePriorityQueue: new(feature.Gates.Enabled(feature.PriorityQueue)),
			CacheSyncTimeout: cacheSyncTimeout,
		},
		Scheme: scheme,
		// Package diagnostics serves metrics, profiles and probes, within bounds.
		Metrics: diagnostics.Off(), HealthProbeBindAddress: "0", PprofBindAddress: "0",
		Cache:  objects,
		Client: setup.ManagerClientOptions(), NewClient: recordlimit.NewClient,
		WebhookServer: httplimit.NewTLSServer("webhooks", crwebhook.Options{
			Host: o.Webhook.BindAddress, Port: o.Webhook.Port, TLSOpts: tlsOptions,
			CertDir: o.Webhook.CertDir, CertName: o.Webhook.CertName, KeyName: o.Webhook.KeyName,
		}, httplimit.ForCalls, hookserver.NewIntake()),
	}
	if lock != nil {
		lock.Apply(&options)
	}
	mgr, err := ctrl.NewManager(restConfig, options)
	if err != nil {
		return nil, fmt.Errorf("connecting to the management cluster at %s: %w", restConfig.Host, err)
	}
	if err := diagnostics.Add(ctx, mgr, metrics); err != nil {
		return nil, err
	}
	if lock != nil {
		if err := lock.AddTo(mgr); err != nil {
			return nil, err
		}
	}
	return mgr, nil
}

// newLock returns the lock of leader election, and nil without it.
func (o ManagerOptions) newLock(restConfig *rest.Config) (*lease.Lock, error) {
	l := o.LeaderElection
	if !l.Enabled {
		return nil, nil //nolint:nilnil // One replica runs.
	}
	identity := capi.HolderPrefix(o.WatchNamespace, o.WatchFilter)
	return lease.New(restConfig, "", capi.ManagerLease, identity, lease.Times{
		Duration: l.LeaseDuration, RenewDeadline: l.RenewDeadline, RenewEvery: l.RetryPeriod,
	})
}

// addServers serves profiles and probes. It has every replica count as alive once its webhooks are served, whether it leads or not, and as ready too: a new one that waits for the
// lease of the old one must become ready for that to go. Where the extension is served, its hooks and its guard are by the leader alone, so a
// replica that goes on waiting is not ready for long: the Service would lead calls to it that it refuses.
func (o ManagerOptions) addServers(ctx context.Context, mgr ctrl.Manager) error {
	started := func(r *http.Request) error { return mgr.GetWebhookServer().StartedChecker()(r) }
	ready := started
	if o.Extension.Port != 0 {
		start := time.Now()
		ready = func(r *http.Request) error {
			if err := checkLeads(mgr.Elected(), time.Since(start)); err != nil {
				return err
			}
			return started(r)
		}
	}
	if err := diagnostics.AddProfiles(ctx, mgr, o.ProfilerAddress); err != nil {
		return err
	}
	return diagnostics.AddHealth(ctx, mgr, o.HealthAddress,
		map[string]healthz.Checker{"webhook": started}, map[string]healthz.Checker{"webhook": ready})
}

// checkLeads returns an error for a replica that has run for so long without being elected. It has time to read its cache, for which the API server may
// need its conversion webhooks, and for the old leader to go.
func checkLeads(elected <-chan struct{}, runs time.Duration) error {
	select {
	case <-elected:
		return nil
	default:
	}
	if runs <= cacheSyncTimeout {
		return nil
	}
	return errors.New("another replica leads, and serves the extension: with --extension-port run one replica")
}

// addExtension serves the extension in this process, where it is asked for. Otherwise it adds only the engine of updates in place.
func (b *builder) addExtension(ctx context.Context) error {
	b.Extension.InPlaceUpgrades.WatchFilter, b.Extension.Deployments = b.WatchFilter, true
	b.Extension.Compiled = new(policy.Store)
	if b.Extension.Port == 0 {
		return b.addUpdates(ctx)
	}
	hooks, limits, err := SetUpExtension(ctx, b.mgr, b.Extension)
	if err != nil {
		return err
	}
	b.hooks, b.limits, b.updates = hooks, limits, limits.engine
	return nil
}
