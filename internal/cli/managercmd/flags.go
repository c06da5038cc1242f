package managercmd

import (
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	logsv1 "k8s.io/component-base/logs/api/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/flags"
)

// Flags that messages name.
const (
	flagExtensionCertDir  = "extension-cert-dir"
	flagExtensionClientCA = "extension-client-ca-name"
	flagExtensionGuard    = "extension-guard-port"
	flagExtensionGuardCA  = "extension-guard-client-ca-name"
)

// managerVerbosity is how much Cluster API's managers log.
const managerVerbosity = "2"

// flagSets are all flags, in the order of the help. Those before the extension's are Cluster API's, by name and default, but for --context.
func (o *options) flagSets() cliflag.NamedFlagSets {
	sets := cliflag.NamedFlagSets{NormalizeNameFunc: cliflag.WordSepNormalizeFunc}
	o.addClusterFlags(sets.FlagSet("management cluster"))
	o.addLeaderFlags(sets.FlagSet("leader election"))
	o.addReconcilingFlags(sets.FlagSet("reconciling"))
	o.addConcurrencyFlags(sets.FlagSet("concurrency"))
	o.addWorkloadFlags(sets.FlagSet("workload cluster"))
	o.addServingFlags(sets.FlagSet("serving"))
	addLogFlags(sets.FlagSet("log"), o)
	o.addCallerFlags(sets.FlagSet("calls of runtime extensions"))
	o.addExtensionFlags(sets.FlagSet("extension"))
	return sets
}

func (o *options) addClusterFlags(fs *pflag.FlagSet) {
	m := &o.manager
	o.cluster.Add(fs)
	fs.Float32Var(&m.QPS, "kube-api-qps", m.QPS, "requests to the management cluster per second, on average")
	fs.IntVar(&m.Burst, "kube-api-burst", m.Burst, "requests to the management cluster at once")
}

func (o *options) addLeaderFlags(fs *pflag.FlagSet) {
	l := &o.manager.LeaderElection
	fs.BoolVar(&l.Enabled, "leader-elect", l.Enabled, "reconcile on one of several replicas at a time, the others waiting; the lease is that of capi-controller-manager, in the pod's namespace, so this works in a pod only")
	fs.DurationVar(&l.LeaseDuration, "leader-elect-lease-duration", l.LeaseDuration, "how long the others wait for a leader that is silent")
	fs.DurationVar(&l.RenewDeadline, "leader-elect-renew-deadline", l.RenewDeadline, "how long the leader tries to renew its lease before it gives up")
	fs.DurationVar(&l.RetryPeriod, "leader-elect-retry-period", l.RetryPeriod, "how often the leader renews its lease")
}

func (o *options) addReconcilingFlags(fs *pflag.FlagSet) {
	m := &o.manager
	feature.MutableGates.AddFlag(fs)
	fs.StringVar(&m.WatchNamespace, "namespace", m.WatchNamespace, "namespace whose objects are reconciled (default: all)")
	fs.StringVar(&m.WatchFilter, "watch-filter", m.WatchFilter, "value of the label "+clusterv1.WatchLabel+" of the objects that are reconciled (default: all objects)")
	fs.DurationVar(&m.SyncPeriod, "sync-period", m.SyncPeriod, "how often objects are reconciled though nothing has changed")
	fs.StringSliceVar(&m.MachineSetPreflightChecks, "machineset-preflight-checks", m.MachineSetPreflightChecks,
		"checks before a MachineSet creates a Machine: All, or some of KubeadmVersionSkew, KubernetesVersionSkew, ControlPlaneIsStable, ControlPlaneVersionSkew")
	fs.StringSliceVar(&m.SkipCRDMigrationPhases, "skip-crd-migration-phases", m.SkipCRDMigrationPhases,
		"parts of the migration of stored objects to leave out: StorageVersionMigration, CleanupManagedFields")
	fs.StringSliceVar(&m.SyncMachineLabels, "additional-sync-machine-labels", m.SyncMachineLabels, "regular expressions for further labels of Machines that their nodes get")
	fs.StringSliceVar(&m.SyncMachineAnnotations, "additional-sync-machine-annotations", m.SyncMachineAnnotations,
		"regular expressions for further annotations of Machines that their nodes get")
}

func (o *options) addConcurrencyFlags(fs *pflag.FlagSet) {
	c := &o.manager.Concurrency
	for _, f := range []struct {
		name, what string
		value      *int
	}{
		{"clustertopology", "Clusters with a topology", &c.ClusterTopology},
		{"clusterclass", "ClusterClasses", &c.ClusterClass},
		{"cluster", "Clusters", &c.Cluster},
		{"clustercache", "connections to workload clusters", &c.ClusterCache},
		{"extensionconfig", "ExtensionConfigs", &c.ExtensionConfig},
		{"machine", "Machines", &c.Machine},
		{"machineset", "MachineSets", &c.MachineSet},
		{"machinedeployment", "MachineDeployments", &c.MachineDeployment},
		{"machinepool", "MachinePools", &c.MachinePool},
		{"clusterresourceset", "ClusterResourceSets", &c.ClusterResourceSet},
		{"machinehealthcheck", "MachineHealthChecks", &c.MachineHealthCheck},
	} {
		fs.IntVar(f.value, f.name+"-concurrency", *f.value, f.what+" reconciled at the same time")
	}
}

func (o *options) addWorkloadFlags(fs *pflag.FlagSet) {
	m := &o.manager
	fs.Float32Var(&m.ClusterQPS, "clustercache-client-qps", m.ClusterQPS, "requests to one workload cluster per second, on average")
	fs.IntVar(&m.ClusterBurst, "clustercache-client-burst", m.ClusterBurst, "requests to one workload cluster at once")
	fs.DurationVar(&m.ConnectionGracePeriod, "remote-connection-grace-period", m.ConnectionGracePeriod,
		"how long after the last good probe of a workload cluster its condition RemoteConnectionProbe becomes False")
	fs.DurationVar(&m.ConditionsGracePeriod, "remote-conditions-grace-period", m.ConditionsGracePeriod,
		"how long after it conditions about nodes become Unknown; at least 2m")
}

func (o *options) addServingFlags(fs *pflag.FlagSet) {
	m := &o.manager
	fs.StringVar(&m.Webhook.BindAddress, "webhook-bind-address", "", "address to serve admission and conversion webhooks on (default: all addresses)")
	fs.IntVar(&m.Webhook.Port, "webhook-port", m.Webhook.Port, "port of admission and conversion webhooks")
	fs.StringVar(&m.Webhook.CertDir, "webhook-cert-dir", m.Webhook.CertDir, "folder with the webhooks' certificate; read again when it changes")
	fs.StringVar(&m.Webhook.CertName, "webhook-cert-name", m.Webhook.CertName, "file in it with the certificate")
	fs.StringVar(&m.Webhook.KeyName, "webhook-key-name", m.Webhook.KeyName, "file in it with the key")
	fs.StringVar(&m.HealthAddress, "health-addr", m.HealthAddress, "address of /healthz and /readyz")
	fs.StringVar(&m.ProfilerAddress, "profiler-address", m.ProfilerAddress, "address of pprof (default: none)")
	fs.BoolVar(&m.ContentionProfiling, "contention-profiling", m.ContentionProfiling, "profile what goroutines wait for")
	flags.AddManagerOptions(fs, &m.Diagnostics)
}

func addLogFlags(fs *pflag.FlagSet, o *options) {
	logsv1.AddFlags(o.logs, fs)
	verbosity := fs.Lookup("v")
	if err := verbosity.Value.Set(managerVerbosity); err != nil {
		panic(err) // It is a number.
	}
	verbosity.DefValue = managerVerbosity
}

func (o *options) addCallerFlags(fs *pflag.FlagSet) {
	m := &o.manager
	fs.StringVar(&m.ClientCertFile, "runtime-extension-client-cert-file", m.ClientCertFile, "certificate with which this manager authenticates to runtime extensions, in PEM (default: it does not)")
	fs.StringVar(&m.ClientKeyFile, "runtime-extension-client-key-file", m.ClientKeyFile, "key of that certificate, in PEM")
}

func (o *options) addExtensionFlags(fs *pflag.FlagSet) {
	e := &o.manager.Extension
	fs.IntVar(&e.Port, "extension-port", e.Port, `port on which this process serves what "windlass extension" does, the guard included; 0 means not at all`)
	fs.StringVar(&e.BindAddress, "extension-bind-address", e.BindAddress, "address for that (default: all addresses)")
	fs.StringVar(&e.CertDir, flagExtensionCertDir, e.CertDir, "folder with the certificate for that, tls.crt and tls.key; needed with --extension-port")
	fs.StringVar(&e.ClientCAName, flagExtensionClientCA, e.ClientCAName, "file in it with the CA that must have signed the callers' certificates; read again when it changes (default: callers need none)")
	fs.IntVar(&e.GuardPort, flagExtensionGuard, e.GuardPort, "port of the admission webhook that guards Machines (default: --extension-port)")
	fs.StringVar(&e.GuardClientCAName, flagExtensionGuardCA, e.GuardClientCAName, "file in --extension-cert-dir with the CA that must have signed the API servers' client certificates, for --extension-guard-port; read again when it changes (default: API servers need none)")
	fs.BoolVar(&o.gates, "extension-gates", true, "serve the lifecycle hooks, by which UpgradeGates hold upgrades; with --extension-gates=false they hold nothing")
	fs.BoolVar(&o.shared, "extension-shared-objects", true, "maintain the statuses of UpgradeGraphs, UpgradeGates, Updaters and UpdatePolicies, and the guard's scope; of several managers with --extension-port and a --watch-filter, exactly one does")
	o.inPlace.AddFlags(fs)
	o.risks.Add(fs, "extension-")
	fs.StringVar(&o.manager.ExtensionConfig, "extension-config", o.manager.ExtensionConfig, "name of the ExtensionConfig under which it is registered: this process calls itself directly")
}
