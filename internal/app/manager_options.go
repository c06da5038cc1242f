package app

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/featuregate"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/flags"
)

// ManagerOptions are the settings of Cluster API's core manager, and ours. DefaultOptions has the defaults; the zero value has not.
type ManagerOptions struct {
	// Version of this program, for logs and the User-Agent.
	Version string

	LeaderElection LeaderElection
	Webhook        Webhook
	Concurrency    Concurrency
	// Diagnostics are the endpoint of metrics, and the TLS settings of all servers.
	Diagnostics flags.ManagerOptions

	// WatchNamespace and WatchFilter limit which objects are reconciled: to a namespace, and to those whose label clusterv1.WatchLabel
	// has this value. Empty: to none.
	WatchNamespace, WatchFilter string
	// SyncPeriod is how often objects are reconciled though nothing has changed.
	SyncPeriod time.Duration
	// HealthAddress is where /healthz and /readyz are served, ProfilerAddress where pprof is; empty: nowhere.
	HealthAddress, ProfilerAddress string
	ContentionProfiling            bool

	// QPS and Burst limit requests to the management cluster, ClusterQPS and ClusterBurst those to each workload cluster.
	QPS, ClusterQPS     float32
	Burst, ClusterBurst int
	// ConnectionGracePeriod and ConditionsGracePeriod say how long a workload cluster may be out of reach before conditions say so.
	ConnectionGracePeriod, ConditionsGracePeriod time.Duration

	// MachineSetPreflightChecks are the checks before a MachineSet creates a Machine.
	MachineSetPreflightChecks []string
	// SkipCRDMigrationPhases are the parts of the migration of stored objects that are left out.
	SkipCRDMigrationPhases []string
	// SyncMachineLabels and SyncMachineAnnotations are regular expressions for what else is copied from a Machine to its node.
	SyncMachineLabels, SyncMachineAnnotations []string

	// ClientCertFile and ClientKeyFile, in PEM, authenticate this manager to runtime extensions; empty: it does not.
	ClientCertFile, ClientKeyFile string
	// Extension is served in this process unless its Port is 0. The upgrades in place that annotations ask for are carried out in either case, unless
	// they are off.
	Extension ExtensionOptions
	// ExtensionConfig is the name of the ExtensionConfig under which it is registered.
	ExtensionConfig string
}

// LeaderElection lets one of several replicas lead at a time.
type LeaderElection struct {
	Enabled                                   bool
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Webhook is where admission and conversion webhooks are served.
type Webhook struct {
	// BindAddress is the address to listen on; empty means all.
	BindAddress                string
	Port                       int
	CertDir, CertName, KeyName string
}

// Concurrency is how many objects of a kind are reconciled at the same time.
type Concurrency struct {
	ClusterTopology, ClusterClass, Cluster, ClusterCache, ExtensionConfig                       int
	Machine, MachineSet, MachineDeployment, MachinePool, ClusterResourceSet, MachineHealthCheck int
}

// DefaultManagerOptions returns the defaults of Cluster API's core manager. The extension is not served.
func DefaultManagerOptions() ManagerOptions {
	return ManagerOptions{
		LeaderElection: LeaderElection{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second},
		Webhook:        Webhook{Port: 9443, CertDir: "/tmp/k8s-webhook-server/serving-certs/", CertName: "tls.crt", KeyName: "tls.key"},
		Concurrency: Concurrency{
			ClusterTopology: 50, ClusterClass: 10, Cluster: 50, ClusterCache: 100, ExtensionConfig: 10,
			Machine: 100, MachineSet: 50, MachineDeployment: 50, MachinePool: 50, ClusterResourceSet: 10, MachineHealthCheck: 50,
		},
		SyncPeriod:    10 * time.Minute,
		HealthAddress: ":9440",
		QPS:           100, Burst: 200, ClusterQPS: 20, ClusterBurst: 30,
		ConnectionGracePeriod: 50 * time.Second, ConditionsGracePeriod: 5 * time.Minute,
		MachineSetPreflightChecks: []string{string(clusterv1.MachineSetPreflightCheckAll)},
		ExtensionConfig:           "windlass",
	}
}

// minConditionsGracePeriod is above the 75 s that the cache of workload clusters may take to drop a connection that is dead (5 probes
// of 5 s, 10 s apart).
const minConditionsGracePeriod = 2 * time.Minute

// checked is what Options hold as text, as values.
type checked struct {
	preflightChecks     sets.Set[clusterv1.MachineSetPreflightCheck]
	skipMigrationPhases []crdmigrator.Phase
	labels, annotations []*regexp.Regexp
}

// check finds what is wrong with the options before anything is started. Errors name the flag.
func (o ManagerOptions) check() (checked, error) {
	switch {
	case o.ConditionsGracePeriod <= o.ConnectionGracePeriod:
		return checked{}, fmt.Errorf("--remote-conditions-grace-period %s is not longer than --remote-connection-grace-period %s: raise it", o.ConditionsGracePeriod, o.ConnectionGracePeriod)
	case o.ConditionsGracePeriod < minConditionsGracePeriod:
		return checked{}, fmt.Errorf("--remote-conditions-grace-period %s is shorter than %s: a connection that is dead may be kept for as long as that", o.ConditionsGracePeriod, minConditionsGracePeriod)
	case (o.ClientCertFile == "") != (o.ClientKeyFile == ""):
		return checked{}, errors.New("--runtime-extension-client-cert-file and --runtime-extension-client-key-file belong together: give both or none")
	}
	var c checked
	var err error
	if c.preflightChecks, err = parsePreflightChecks(o.MachineSetPreflightChecks); err != nil {
		return checked{}, err
	}
	if c.skipMigrationPhases, err = parsePhases(o.SkipCRDMigrationPhases); err != nil {
		return checked{}, err
	}
	if c.labels, err = compileAll("additional-sync-machine-labels", o.SyncMachineLabels); err != nil {
		return checked{}, err
	}
	c.annotations, err = compileAll("additional-sync-machine-annotations", o.SyncMachineAnnotations)
	return c, err
}

// checkGates refuses feature gates with which upgrades would not be safe: only with ReconcilerRateLimiting does Cluster API hold a reconcile back until
// the cache has what the last one wrote, and the topology controller decides what comes next by that.
func checkGates(enabled func(featuregate.Feature) bool) error {
	if enabled(feature.ClusterTopology) && !enabled(feature.ReconcilerRateLimiting) {
		return errors.New("--feature-gates has ReconcilerRateLimiting=false: with ClusterTopology it must be on, as it is by default, or Clusters would be upgraded by what an outdated cache says")
	}
	return nil
}

// parsePreflightChecks leaves empty items out, as they come from a flag that is set to nothing.
func parsePreflightChecks(names []string) (sets.Set[clusterv1.MachineSetPreflightCheck], error) {
	known := []clusterv1.MachineSetPreflightCheck{
		clusterv1.MachineSetPreflightCheckAll, clusterv1.MachineSetPreflightCheckKubeadmVersionSkew, clusterv1.MachineSetPreflightCheckKubernetesVersionSkew,
		clusterv1.MachineSetPreflightCheckControlPlaneIsStable, clusterv1.MachineSetPreflightCheckControlPlaneVersionSkew,
	}
	out := sets.New[clusterv1.MachineSetPreflightCheck]()
	for _, name := range names {
		check := clusterv1.MachineSetPreflightCheck(name)
		switch {
		case name == "":
		case slices.Contains(known, check):
			out.Insert(check)
		default:
			return nil, unknownError("machineset-preflight-checks", name, known)
		}
	}
	return out, nil
}

func parsePhases(names []string) ([]crdmigrator.Phase, error) {
	known := []crdmigrator.Phase{crdmigrator.StorageVersionMigrationPhase, crdmigrator.CleanupManagedFieldsPhase}
	out := make([]crdmigrator.Phase, 0, len(names))
	for _, name := range names {
		phase := crdmigrator.Phase(name)
		if !slices.Contains(known, phase) {
			return nil, unknownError("skip-crd-migration-phases", name, known)
		}
		out = append(out, phase)
	}
	return out, nil
}

func unknownError[T ~string](flag, name string, known []T) error {
	names := make([]string, 0, len(known))
	for _, k := range known {
		names = append(names, string(k))
	}
	return fmt.Errorf("--%s %q is unknown: use %s", flag, name, strings.Join(names, ", "))
}

func compileAll(flag string, expressions []string) ([]*regexp.Regexp, error) {
	out := make([]*regexp.Regexp, 0, len(expressions))
	for _, expression := range expressions {
		compiled, err := regexp.Compile(expression)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		out = append(out, compiled)
	}
	return out, nil
}
