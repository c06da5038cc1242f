package extensioncmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/app"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/serving"
	"github.com/windlass-dev/windlass/internal/controllers"
	"github.com/windlass-dev/windlass/internal/diagnostics"
	"github.com/windlass-dev/windlass/internal/guard/guardwebhook"
	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/lease"
	"github.com/windlass-dev/windlass/internal/recordlimit"
)

// leaseTimes have the next replica serve within 15 s of the last request that a leader answered which
// is killed or stopped.
var leaseTimes = lease.Times{Duration: 12 * time.Second, RenewDeadline: 8 * time.Second, RenewEvery: 2 * time.Second}

// leaseName is the lease of the replica that serves.
const leaseName = "extension.windlass.dev"

// options are the flags of `windlass extension`.
type options struct {
	serving                      serving.Flags
	guardPort                    int
	guardClientCAName            string
	healthAddr                   string
	diagnostics                  serving.Diagnostics
	leaderElect, gates, shared   bool
	inPlace                      InPlaceFlags
	risks                        cli.RiskFlags
	namespace, pod               string
	extensionConfig, watchFilter string
	log                          cli.LogOptions
}

// New returns windlass extension.
func New() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "extension",
		Short: "Serve plans and in-place updates to Cluster API (runtime extension)",
		Long: `Extension serves upgrade plans, updates in place and gates to Cluster API as a runtime extension, over TLS. Run it
beside stock Cluster API; the manifests are in config/.

It answers the GenerateUpgradePlan hook. It plans from UpgradeGraph objects, which list the Kubernetes versions, the
blocked steps between them, and versions that must be reached first. Name it in a ClusterClass, in spec.upgrade.external.generateUpgradePlanExtension, as
` + hookserver.GenerateUpgradePlanHandler + `.<name of the ExtensionConfig>.

It answers CanUpdateMachine, CanUpdateMachineSet and UpdateMachine with the registered Updaters, as UpdatePolicy
objects allow. It must be the only extension for these hooks. It also serves the guard, at ` + guardwebhook.GuardPath + `: the
admission webhook that refuses to replace machines if a policy forbids it.

It answers the lifecycle hooks of upgrades. With them, UpgradeGate objects hold an upgrade until a person approves it,
a maintenance window is open, or checks of the cluster pass.

It maintains the status of these objects. With --leader-elect, one of several replicas serves, and --pod has a Service
find it by a label. Without --leader-elect, run one replica.`,
		Example: `  # In a cluster, with the certificate from a mounted Secret:
  windlass extension --cert-dir /etc/windlass/tls

  # On this machine, for the management cluster of the current kubeconfig context:
  windlass extension --bind-address 127.0.0.1 --cert-dir ./certs --health-addr 127.0.0.1:8081 \
    --diagnostics-address 127.0.0.1:8443`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	o.serving.Add(cmd)
	flags.IntVar(&o.guardPort, "guard-port", 0, "port to serve the admission webhook on that guards Machines; needed with --client-ca-name, because API servers have another certificate or none (default: --port)")
	flags.StringVar(&o.guardClientCAName, "guard-client-ca-name", "", "file in --cert-dir with the CA that must have signed the API servers' client certificates, for --guard-port; read again when it changes (default: API servers need none)")
	flags.StringVar(&o.healthAddr, "health-addr", ":8081", `address of /healthz and /readyz; "" for none`)
	o.diagnostics.Add(flags)
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "serve on one of several replicas at a time, the others waiting; needed where more than one runs")
	flags.BoolVar(&o.gates, "gates", true, "serve the lifecycle hooks, by which UpgradeGates hold upgrades; with --gates=false they hold nothing")
	o.inPlace.AddFlags(flags)
	o.risks.Add(flags, "")
	flags.StringVar(&o.pod, "pod", "", "the Pod of this replica, as `NAMESPACE/NAME`: it has the label windlass.dev/active=true while this replica serves, and no other does (default: none)")
	flags.StringVar(&o.watchFilter, "watch-filter", "", "value of the label "+clusterv1.WatchLabel+" of the Machines, groups and Clusters that are worked on without a call of a hook (default: all objects)")
	flags.BoolVar(&o.shared, "shared-objects", true, "maintain the statuses of UpgradeGraphs, UpgradeGates, Updaters and UpdatePolicies, and the guard's scope; of several extensions with a --watch-filter, exactly one does")
	flags.StringVar(&o.extensionConfig, "extension-config", "", "name of the ExtensionConfig whose namespaces, of the Service and of the Secret with the CA, are to be that of --pod (default: none is changed)")
	flags.StringVar(&o.namespace, "namespace", "", "namespace of the lease for --leader-elect (default: the pod's)")
	o.log.AddFlags(flags)
	cli.MustRegister(cmd.MarkFlagDirname("cert-dir"))
	cli.CompleteContext(cmd)
	return cmd
}

// run serves until ctx is cancelled.
func (o *options) run(ctx context.Context, logs io.Writer) error {
	if err := o.log.Apply(logs); err != nil {
		return err
	}
	served, err := o.served()
	if err != nil {
		return err
	}
	restConfig, err := o.restConfig()
	if err != nil {
		return err
	}
	lock, err := o.newLock(restConfig)
	if err != nil {
		return err
	}
	if lock != nil {
		served.Held = lock.Held
	}
	mgr, err := o.newManager(ctx, restConfig, served.InPlaceUpgrades, lock)
	if err != nil {
		return err
	}
	if err := app.AddRestoredWatch(mgr, ""); err != nil {
		return err
	}
	hooks, _, err := app.SetUpExtension(ctx, mgr, served)
	if err != nil {
		return err
	}
	if err := o.addChecks(ctx, mgr, hooks, served.Held); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// served checks the flags about what is served.
func (o *options) served() (app.ExtensionOptions, error) {
	upgrades, err := o.inPlace.Check()
	if err != nil {
		return app.ExtensionOptions{}, err
	}
	upgrades.WatchFilter = o.watchFilter
	known, err := o.risks.Load()
	if err != nil {
		return app.ExtensionOptions{}, err
	}
	if err := o.serving.Check(); err != nil {
		return app.ExtensionOptions{}, err
	}
	served := app.ExtensionOptions{
		Risks:       known,
		BindAddress: o.serving.BindAddress, Port: o.serving.Port, GuardPort: o.guardPort,
		CertDir: o.serving.CertDir, ClientCAName: o.serving.ClientCAName, GuardClientCAName: o.guardClientCAName,
		NoGates: !o.gates, InPlaceUpgrades: upgrades, NoShared: !o.shared,
	}
	return served, CheckGuard(guardCAFlags, served)
}

// addChecks adds the probes, and what finds the replica that leads. held is nil without leader election.
func (o *options) addChecks(
	ctx context.Context, mgr manager.Manager, hooks *hookserver.Server, held func() error,
) error {
	serves := func() error {
		if held == nil {
			return hooks.Ready(nil)
		}
		return errors.Join(held(), hooks.Ready(nil))
	}
	return o.addReadiness(ctx, mgr, hooks, serves)
}

// addReadiness makes a replica Ready that waits with full caches, because it can lead at any time, and
// one that leads once it serves. Requests reach the one with the label, so a leader that cannot set it
// is not Ready. Without leader election nobody waits, so Ready means that it serves.
func (o *options) addReadiness(
	ctx context.Context, mgr manager.Manager, hooks *hookserver.Server, serves func() error,
) error {
	ready := hooks.Ready
	if o.leaderElect {
		synced := &app.Synced{}
		if err := mgr.Add(synced); err != nil {
			return fmt.Errorf("adding the check of the caches: %w", err)
		}
		ready = func(r *http.Request) error {
			select {
			case <-mgr.Elected():
				return hooks.Ready(r)
			default:
				return synced.Ready(r)
			}
		}
	}
	checks := map[string]healthz.Checker{"hooks": ready}
	if o.pod == "" {
		if o.extensionConfig != "" {
			return errors.New("--extension-config needs a namespace. Fix: set --pod, too")
		}
		return o.serveHealth(ctx, mgr, checks)
	}
	active, err := app.NewActivePod(mgr, o.pod, serves)
	if err != nil {
		return err
	}
	if err := mgr.Add(active); err != nil {
		return fmt.Errorf("adding the label of the active Pod: %w", err)
	}
	checks["active-label"] = active.Ready
	if err := o.serveHealth(ctx, mgr, checks); err != nil || o.extensionConfig == "" {
		return err
	}
	registration := &controllers.RegistrationReconciler{
		Client: mgr.GetClient(), Name: o.extensionConfig, Namespace: active.Pod.Namespace, Now: time.Now,
	}
	return registration.SetupWithManager(mgr)
}

// serveHealth serves the probes.
func (o *options) serveHealth(
	ctx context.Context, mgr manager.Manager, ready map[string]healthz.Checker,
) error {
	alive := map[string]healthz.Checker{"ping": healthz.Ping}
	return diagnostics.AddHealth(ctx, mgr, o.healthAddr, alive, ready)
}

// GuardFlags are the names of the flags about the guard's port.
type GuardFlags struct{ Port, Dir, HooksCA, ClientCA string }

var guardCAFlags = GuardFlags{Port: "guard-port", Dir: "cert-dir", HooksCA: "client-ca-name", ClientCA: "guard-client-ca-name"}

// CheckGuard finds a CA for the guard's callers that cannot be used, and a guard at the port of hooks
// that need a certificate: API servers present none there, so they would refuse kept Machines.
func CheckGuard(flags GuardFlags, o app.ExtensionOptions) error {
	own := o.GuardPort != 0 && o.GuardPort != o.Port
	switch {
	case !own && o.GuardClientCAName != "":
		return fmt.Errorf("--%s has no effect on the port of the hooks. Fix: set --%s, so that the guard has a port of its own", flags.ClientCA, flags.Port)
	case !own && o.ClientCAName != "":
		return fmt.Errorf("--%s asks every caller of the port for a certificate, also API servers that ask the guard. "+
			"Fix: set --%s, so that the guard has a port of its own", flags.HooksCA, flags.Port)
	}
	return serving.CheckClientCA(flags.Dir, o.CertDir, flags.ClientCA, o.GuardClientCAName)
}

func (o *options) restConfig() (*rest.Config, error) {
	restConfig, err := o.serving.RESTConfig()
	if err != nil {
		return nil, err
	}
	serving.Unthrottle(restConfig)
	return rest.AddUserAgent(restConfig, "windlass-extension"), nil
}

// newLock returns the lock of leader election, and nil without it.
func (o *options) newLock(restConfig *rest.Config) (*lease.Lock, error) {
	if !o.leaderElect {
		return nil, nil //nolint:nilnil // One replica runs.
	}
	return lease.New(restConfig, o.namespace, leaseName, "", leaseTimes)
}

func (o *options) newManager(
	ctx context.Context, restConfig *rest.Config, upgrades app.InPlaceUpgrades, lock *lease.Lock,
) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := app.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metrics, err := o.diagnostics.Options(o.serving.CertDir)
	if err != nil {
		return nil, err
	}
	skipNameValidation := true
	options := manager.Options{
		Scheme: scheme,
		// Package diagnostics serves metrics and probes, within bounds.
		Metrics: diagnostics.Off(), HealthProbeBindAddress: "0",
		NewClient: recordlimit.NewClient,
		// Managed fields are half of an object, and nothing here looks at them.
		Cache: cache.Options{DefaultTransform: slim(upgrades)},
		// Names are validated against a register of the whole process, which would keep a test from running this twice.
		Controller: config.Controller{SkipNameValidation: &skipNameValidation},
	}
	if o.extensionConfig != "" {
		options.Cache.ByObject = map[client.Object]cache.ByObject{
			&runtimev1.ExtensionConfig{}: {Field: fields.OneTermEqualSelector(metav1.ObjectNameField, o.extensionConfig)},
		}
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

// slim drops what nothing here looks at from objects in the cache: managed fields, which are half of an object, annotations of
// CustomResourceDefinitions, in which kubectl apply keeps a copy of the whole object, and what extension.SlimMachine does.
func slim(upgrades app.InPlaceUpgrades) toolscache.TransformFunc {
	slimMachine, slimWhole := app.SlimMachine(upgrades), app.SlimWholeMachine(upgrades)
	return func(object any) (any, error) {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return object, nil //nolint:nilerr // It is no object, so there is nothing to drop.
		}
		accessor.SetManagedFields(nil)
		if metadata, ok := object.(*metav1.PartialObjectMetadata); ok && metadata.Kind == "CustomResourceDefinition" {
			metadata.Annotations = nil
		}
		if _, whole := object.(*clusterv1.Machine); whole {
			return slimWhole(object)
		}
		return slimMachine(object)
	}
}

// InPlaceFlags are the flags about upgrades in place that annotations ask for.
type InPlaceFlags struct {
	On     bool
	prefix string
}

// AddFlags adds the flags.
func (f *InPlaceFlags) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&f.On, FlagInPlace, true, "carry out the upgrades in place that annotations on Machines, MachineDeployments and control planes ask for, unless another process does (windlass manager: only with --extension-port by default)")
	flags.StringVar(&f.prefix, flagInPlacePrefix, v1alpha1.DefaultInPlaceUpgradePrefix, "what the keys of these annotations begin with")
}

const (
	// FlagInPlace is the name of the flag for InPlaceFlags.On.
	FlagInPlace       = "in-place-upgrades"
	flagInPlacePrefix = "in-place-upgrade-prefix"
)

// Check finds a prefix with which there are no annotations.
func (f *InPlaceFlags) Check() (app.InPlaceUpgrades, error) {
	upgrades := app.InPlaceUpgrades{Off: !f.On, Prefix: f.prefix}
	if f.prefix == "" {
		return upgrades, fmt.Errorf("--%s is empty. Fix: omit it for %s", flagInPlacePrefix, v1alpha1.DefaultInPlaceUpgradePrefix)
	}
	if err := upgrades.Check(); err != nil {
		return upgrades, fmt.Errorf("--%s: %w", flagInPlacePrefix, err)
	}
	return upgrades, nil
}
