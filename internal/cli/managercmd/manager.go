package managercmd

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/windlass-dev/windlass/internal/app"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/extensioncmd"
	"github.com/windlass-dev/windlass/internal/cli/serving"
)

// options are the flags of `windlass manager`.
type options struct {
	cluster serving.ClusterFlags
	logs    *logs.Options
	gates   bool
	shared  bool
	inPlace extensioncmd.InPlaceFlags
	risks   cli.RiskFlags
	manager app.ManagerOptions
}

// New returns windlass manager. version is the version of this program.
func New(version string) *cobra.Command {
	o := options{logs: logs.NewOptions(), manager: app.DefaultManagerOptions()}
	o.manager.Version = version
	cmd := &cobra.Command{
		Use:   "manager",
		Short: "Run Cluster API's core manager with Windlass' engine",
		Long: `Manager runs Cluster API's core manager with Windlass' engine. Use it instead of capi-controller-manager. The manifests
are in config/manager.

It serves the same webhooks, reconciles the same objects, and has the same flags and the same lease: while one of the
two runs with --leader-elect, the other waits. You can replace one with the other also during an upgrade. Before you go
back during a rollout, see docs/how-to/run-the-engine.md: Cluster API's own manager knows fewer limits of UpdatePolicies.

With --extension-port it also does the work of "windlass extension". Then do not run that command too. Without
--extension-port and without "windlass extension", --in-place-upgrades carries out upgrades by annotation.`,
		Example: `  # In a cluster, with the arguments of capi-controller-manager:
  windlass manager --leader-elect --feature-gates=ClusterTopology=true,RuntimeSDK=true

  # The same, and the extension with it:
  windlass manager --leader-elect --feature-gates=ClusterTopology=true,RuntimeSDK=true,InPlaceUpdates=true \
    --extension-port=9444 --extension-cert-dir=/etc/windlass/tls`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.setInPlaceDefault(cmd.Flags().Changed(extensioncmd.FlagInPlace))
			return o.run(cmd.Context())
		},
	}
	flags := o.flagSets()
	cmd.Flags().SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	for _, name := range flags.Order {
		cmd.Flags().AddFlagSet(flags.FlagSets[name])
	}
	cli.CompleteContext(cmd)
	for _, name := range []string{"webhook-cert-dir", flagExtensionCertDir} {
		cli.MustRegister(cmd.MarkFlagDirname(name))
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		out := cmd.OutOrStderr()
		if _, err := fmt.Fprintf(out, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example); err != nil {
			return err
		}
		cliflag.PrintSections(out, flags, 0)
		return nil
	})
	return cmd
}

// setInPlaceDefault leaves upgrades in place that annotations ask for to the process that serves the extension, unless the flag is set.
func (o *options) setInPlaceDefault(set bool) {
	if !set {
		o.inPlace.On = o.manager.Extension.Port != 0
	}
}

// podNamespaceFile is where controller-runtime finds the namespace of the lease.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// checkInPod finds what would keep the lease from being found, in words that name our flag.
func checkInPod() error {
	if _, err := os.Stat(podNamespaceFile); err != nil {
		return fmt.Errorf("--leader-elect works in a pod only, because the lease of capi-controller-manager is in the pod's namespace. Fix: omit it here, "+
			"and see that no capi-controller-manager runs beside this one: %w", err)
	}
	return nil
}

func (o *options) run(ctx context.Context) error {
	if err := logsv1.ValidateAndApply(o.logs, nil); err != nil {
		return fmt.Errorf("setting up the log: %w", err)
	}
	ctrl.SetLogger(klog.Background())
	if e := o.manager.Extension; e.Port != 0 {
		if err := serving.CheckCertificates(flagExtensionCertDir, e.CertDir, flagExtensionClientCA, e.ClientCAName); err != nil {
			return err
		}
		guard := extensioncmd.GuardFlags{Port: flagExtensionGuard, Dir: flagExtensionCertDir, HooksCA: flagExtensionClientCA, ClientCA: flagExtensionGuardCA}
		if err := extensioncmd.CheckGuard(guard, e); err != nil {
			return err
		}
	}
	upgrades, err := o.inPlace.Check()
	if err != nil {
		return err
	}
	if o.manager.Extension.Risks, err = o.risks.Load(); err != nil {
		return err
	}
	o.manager.Extension.NoGates, o.manager.Extension.InPlaceUpgrades, o.manager.Extension.NoShared = !o.gates, upgrades, !o.shared
	if o.manager.LeaderElection.Enabled {
		if err := checkInPod(); err != nil {
			return err
		}
	}
	restConfig, err := o.cluster.RESTConfig()
	if err != nil {
		return err
	}
	return app.RunManager(ctx, restConfig, o.manager)
}
