package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/controllers"
	"github.com/windlass-dev/windlass/internal/eventlimit"
	"github.com/windlass-dev/windlass/internal/gate/gatehooks"
	"github.com/windlass-dev/windlass/internal/guard/guardwebhook"
	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/inplace/engine"
	"github.com/windlass-dev/windlass/internal/metrics"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/policystore"
	"github.com/windlass-dev/windlass/internal/recordlimit"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/workload"
)

// kubeadmControlPlane is the kind of control plane on which a condition shows that it is blocked. Those of
// other providers have it on their Machines.
var kubeadmControlPlane = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"}

// definitionKind is of objects whose labels name the API versions of providers' kinds.
var definitionKind = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")

// scopePropagation is far longer than API servers take to see a changed ValidatingWebhookConfiguration by their watch.
const scopePropagation = time.Second

// scopeNarrowing is how often the guard's scope becomes narrower at most. Until then API servers ask the
// guard about more Machines than policies keep.
const scopeNarrowing = time.Minute

// eventSource names this program in Events.
const eventSource = "windlass"

// ExtensionOptions say where the hooks and the guard are served.
type ExtensionOptions struct {
	// BindAddress is the address to listen on; empty means all.
	BindAddress string
	// Port is where hooks are served, from 1 to 65535.
	Port int
	// GuardPort is where the guard is served; 0 means beside the hooks. The two need ports of their own where callers of hooks must
	// have a certificate: API servers have another one, or none.
	GuardPort int
	// CertDir holds the serving certificate, as hookserver.CertName and hookserver.KeyName.
	CertDir string
	// ClientCAName is a file in CertDir with the CA of the callers' certificates; empty means that callers need none.
	ClientCAName string
	// GuardClientCAName is a file in CertDir with the CA of the API servers' client certificates, for GuardPort; empty means that they need
	// none.
	GuardClientCAName string
	// NoGates leaves out the lifecycle hooks, and with them UpgradeGates.
	NoGates bool
	// InPlaceUpgrades are those that annotations ask for.
	InPlaceUpgrades InPlaceUpgrades
	// NoShared leaves the statuses of UpgradeGraphs, Updaters and UpdatePolicies, and the guard's scope, to another
	// process. Of all processes of a management cluster, exactly one does them.
	NoShared bool
	// Risks are the known risks that UpgradeGraphs can block; nil means those of this release.
	Risks *risks.Set
	// Held returns nil while no other replica can lead. Without, hooks and guard refuse requests. Nil
	// means that one replica runs.
	Held func() error
	// Deployments reports whether the manager's cache has whole MachineDeployments: metrics then show
	// those that are blocked.
	Deployments bool
	// Compiled keeps the UpdatePolicies of the process, parsed. Nil means that nothing else in it reads
	// them.
	Compiled *policy.Store
}

// AddToScheme registers every type that the extension reads or writes.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, clusterv1.AddToScheme, runtimev1.AddToScheme, corev1.AddToScheme, policyv1.AddToScheme, admissionregistrationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("building the scheme: %w", err)
		}
	}
	return nil
}

// SetUpExtension adds the extension to a manager, and returns the server of its hooks, and the limits of the updates in place that it does. The manager's
// scheme must have what AddToScheme registers. Hooks and guard are served once the manager leads.
func SetUpExtension(ctx context.Context, mgr manager.Manager, o ExtensionOptions) (*hookserver.Server, *Limits, error) {
	if err := watchOwnKinds(ctx, mgr, o); err != nil {
		return nil, nil, err
	}
	if o.Compiled == nil {
		o.Compiled = new(policy.Store)
	}
	clients, err := newClients(mgr, o.Compiled)
	if err != nil {
		return nil, nil, err
	}
	updaters, err := addUpdaterPool(mgr, clients.live, o.InPlaceUpgrades.prefix())
	if err != nil {
		return nil, nil, err
	}
	updates := metrics.NewUpdates(metrics.MaxSets)
	engine := newEngine(mgr, clients, updaters, o.InPlaceUpgrades, updates)
	scope := metricsScope{
		serves: metrics.Extension, gates: !o.NoGates, machines: true, deployments: o.Deployments,
		filter: o.InPlaceUpgrades.WatchFilter,
	}
	if err := addMetrics(mgr, updates, scope); err != nil {
		return nil, nil, err
	}
	if err := addControllers(mgr, clients, updaters, engine, o); err != nil {
		return nil, nil, err
	}
	if err := addInPlaceUpgrades(mgr, clients, engine, o.InPlaceUpgrades); err != nil {
		return nil, nil, err
	}
	guard, err := newGuard(mgr, clients)
	if err != nil {
		return nil, nil, err
	}
	served := hookserver.Options{
		Graphs: hookserver.GraphsFrom(clients.cached), Updates: engine, Limits: engine,
		Risks: o.Risks, ControlPlanes: engine,
		// Of two replicas that carry out updates, each would count only its own.
		LeaderOnly: true,
		Wrap:       func(next http.Handler) http.Handler { return hookserver.WhileHeld(o.Held, next) },
	}
	if !o.NoGates {
		served.Gates = gatehooks.New(gatehooks.Options{
			Client: clients.cached, Live: clients.live, Mapper: mgr.GetRESTMapper(), Workload: workload.NewFacts(clients.live, time.Now), Now: time.Now,
		})
	}
	hooks, err := newServer(mgr, o, guard, served)
	if err != nil {
		return nil, nil, err
	}
	if err := mgr.Add(hooks); err != nil {
		return nil, nil, fmt.Errorf("adding the hook server: %w", err)
	}
	return hooks, &Limits{engine: engine}, nil
}

// clients are the two ways to the API server.
type clients struct {
	// cached reads from the manager's cache, except objects of kinds that are not known at build time, and writes.
	cached client.Client
	// live reads from the API server: what was just written is seen.
	live client.Client
	// kinds is asked before a kind that a tenant chose is watched.
	kinds *contract.Watchable
	// compiled keeps parsed UpdatePolicies.
	compiled *policy.Store
}

// newClients makes clients that behave the same on every manager. The client of a manager may do otherwise: Cluster API's core manager
// caches objects of all kinds.
func newClients(mgr manager.Manager, compiled *policy.Store) (clients, error) {
	options := client.Options{Scheme: mgr.GetScheme(), HTTPClient: mgr.GetHTTPClient(), Mapper: mgr.GetRESTMapper()}
	live, err := recordlimit.NewClient(mgr.GetConfig(), options)
	if err != nil {
		return clients{}, fmt.Errorf("connecting to the management cluster: %w", err)
	}
	options.Cache = &client.CacheOptions{Reader: mgr.GetCache()}
	cached, err := recordlimit.NewClient(mgr.GetConfig(), options)
	if err != nil {
		return clients{}, fmt.Errorf("connecting to the management cluster: %w", err)
	}
	return clients{cached: cached, live: live, kinds: contract.NewWatchable(live, time.Now), compiled: compiled}, nil
}

func newEngine(mgr manager.Manager, c clients, updaters *updaterPool, o InPlaceUpgrades, updates *metrics.Updates) *engine.Engine {
	return engine.New(engine.Options{
		Metrics: updates, Compiled: c.compiled,
		Client: c.cached, Live: c.live, Nodes: updaters.nodes, Open: updaters.Open,
		Now: time.Now, NewID: func() string { return string(uuid.NewUUID()) }, Events: eventlimit.For(mgr, eventSource),
		Prefix: o.prefix(), WatchFilter: o.WatchFilter,
	})
}

// newServer returns the server of hooks, with the guard in it or on a port of its own.
func newServer(mgr manager.Manager, o ExtensionOptions, guard http.Handler, served hookserver.Options) (*hookserver.Server, error) {
	served.Endpoint = hookserver.Endpoint{
		BindAddress: o.BindAddress, Port: o.Port, CertDir: o.CertDir, ClientCAName: o.ClientCAName,
	}
	refusals, err := hookserver.NewRefusals(crmetrics.Registry)
	if err != nil {
		return nil, err
	}
	served.Refusals = refusals
	if o.GuardPort == 0 {
		served.Webhooks = map[string]http.Handler{guardwebhook.GuardPath: guard}
	} else if err := addGuardServer(mgr, o, guard); err != nil {
		return nil, err
	}
	hooks, err := hookserver.New(served)
	if err != nil {
		return nil, fmt.Errorf("creating the hook server: %w", err)
	}
	return hooks, nil
}

// addGuardServer serves the guard on a port of its own.
func addGuardServer(mgr manager.Manager, o ExtensionOptions, guard http.Handler) error {
	webhooks, err := hookserver.NewTLSServer(hookserver.Endpoint{
		BindAddress: o.BindAddress, Port: o.GuardPort, CertDir: o.CertDir, ClientCAName: o.GuardClientCAName,
	})
	if err != nil {
		return fmt.Errorf("creating the guard's server: %w", err)
	}
	webhooks.Register(guardwebhook.GuardPath, hookserver.WhileHeld(o.Held, guard))
	if err := mgr.Add(webhooks); err != nil {
		return fmt.Errorf("adding the guard: %w", err)
	}
	return nil
}

// newGuard returns the handler of the admission webhook that keeps machines from being replaced.
func newGuard(mgr manager.Manager, c clients) (http.Handler, error) {
	metrics, err := guardwebhook.NewGuardMetrics(crmetrics.Registry)
	if err != nil {
		return nil, fmt.Errorf("registering the guard's metrics: %w", err)
	}
	return guardwebhook.NewWebhook(guardwebhook.GuardOptions{
		Policies: policystore.New(c.cached, c.compiled), Live: c.live, Recorder: eventlimit.For(mgr, eventSource), Metrics: metrics, Now: time.Now, Sleep: guardwebhook.Sleep,
		Parsed: hookserver.ReleaseParsed,
	}), nil
}

// addControllers adds those that keep the status of our objects, and the sweeper of blocked groups.
func addControllers(mgr manager.Manager, c clients, updaters *updaterPool, engine *engine.Engine, o ExtensionOptions) error {
	if !o.NoShared {
		if err := addShared(mgr, c, updaters, o.NoGates); err != nil {
			return err
		}
	}
	if err := addPrefetcher(mgr, engine, nil); err != nil {
		return err
	}
	return addSweeper(mgr, engine)
}

// addPrefetcher adds what prepares machines whose update may not begin yet. serves reports whether no other
// process does; nil means that none does.
func addPrefetcher(mgr manager.Manager, e *engine.Engine, serves func(context.Context) bool) error {
	if err := mgr.Add(&controllers.Prefetcher{Prefetching: e, Serves: serves}); err != nil {
		return fmt.Errorf("adding what prepares machines: %w", err)
	}
	return nil
}

// addSweeper adds what removes conditions of groups that nothing blocks any longer.
func addSweeper(mgr manager.Manager, swept controllers.Swept) error {
	kinds := []schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("MachineDeployment"), clusterv1.GroupVersion.WithKind("Machine"),
	}
	_, err := mgr.GetRESTMapper().RESTMapping(kubeadmControlPlane.GroupKind(), kubeadmControlPlane.Version)
	if err == nil {
		kinds = append(kinds, kubeadmControlPlane)
	}
	if err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("looking for %s: %w", kubeadmControlPlane.GroupKind(), err)
	}
	if err := mgr.Add(&controllers.UpdateSweeper{Swept: swept, Kinds: kinds}); err != nil {
		return fmt.Errorf("adding the sweeper of blocked groups: %w", err)
	}
	return nil
}

// addShared adds the controllers of objects that belong to no Cluster.
func addShared(mgr manager.Manager, c clients, updaters *updaterPool, noGates bool) error {
	graphs := &controllers.UpgradeGraphReconciler{Client: c.cached, Now: time.Now}
	if err := graphs.SetupWithManager(mgr); err != nil {
		return err
	}
	if !noGates {
		gates := &controllers.UpgradeGateReconciler{Client: c.cached, Now: time.Now}
		if err := gates.SetupWithManager(mgr); err != nil {
			return err
		}
	}
	probes := &controllers.UpdaterReconciler{Client: c.cached, Prober: updaters, Now: time.Now}
	if err := probes.SetupWithManager(mgr); err != nil {
		return err
	}
	policies := &controllers.UpdatePolicyReconciler{
		Client: c.cached, Live: c.live, Mapper: mgr.GetRESTMapper(), Kinds: c.kinds, Now: time.Now, Process: string(uuid.NewUUID()), Propagation: scopePropagation,
		NarrowEvery: scopeNarrowing,
		Compiled:    c.compiled,
	}
	return policies.SetupWithManager(mgr)
}

// watchOwnKinds makes the manager's cache wait for what is needed before anything is served: the objects of our own kinds,
// and those of watchMachines.
func watchOwnKinds(ctx context.Context, mgr manager.Manager, o ExtensionOptions) error {
	if err := watchMachines(ctx, mgr); err != nil {
		return err
	}
	own := []client.Object{&v1alpha1.UpgradeGraph{}, &v1alpha1.Updater{}, &v1alpha1.UpdatePolicy{}}
	if !o.NoGates {
		own = append(own, &v1alpha1.UpgradeGate{})
	}
	for _, object := range own {
		_, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if meta.IsNoMatchError(err) {
			return fmt.Errorf("watching %T: %w. Fix: install the CRDs with kubectl apply -k config/crd", object, err)
		}
		if err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
	}
	return nil
}

// watchMachines makes the manager's cache read what an engine needs before its first request:
// CustomResourceDefinitions, and Machines, which are many, with the engine's index.
func watchMachines(ctx context.Context, mgr manager.Manager) error {
	for _, kind := range []schema.GroupVersionKind{clusterv1.GroupVersion.WithKind("Machine"), definitionKind} {
		metadata := capi.MetadataOf(kind)
		_, err := mgr.GetCache().GetInformer(ctx, metadata, cache.BlockUntilSynced(false))
		if meta.IsNoMatchError(err) {
			return fmt.Errorf("watching %ss: %w. Fix: install Cluster API first", kind.Kind, err)
		}
		if err != nil {
			return fmt.Errorf("watching %ss: %w", kind.Kind, err)
		}
	}
	machine := capi.MetadataOf(clusterv1.GroupVersion.WithKind("Machine"))
	if err := mgr.GetCache().IndexField(ctx, machine, engine.InFlightIndex, engine.IndexInFlight); err != nil {
		return fmt.Errorf("indexing Machines: %w", err)
	}
	return nil
}
