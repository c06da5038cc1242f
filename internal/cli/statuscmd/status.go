package statuscmd

import (
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/view"
)

const long = `Status shows how the upgrade of a Cluster stands, and the in-place updates of its machines.

Of the upgrade, for a Cluster with a managed topology: which steps are done and how long they took, what is running and how many
machines are there, what comes next, who holds it and since when, and when it should be done if it goes on as its own finished
steps did. What is due now follows from the objects, by the rules that windlass manager goes by; no hook is called.
That a hook holds the upgrade is what the Cluster's condition TopologyReconciled says, or an UpgradeGate; where the condition does not fit the
objects, both are shown. It works for any controller of topologies, but only windlass manager records steps: under another one
the steps that are done are known only from Events, and there is no ETA. What cannot be known is listed.

Of updates in place: for each group which UpdatePolicy counts and
how many machines are up to date, marked, queued, updating, finished, failed or waiting; for each machine under update the updater
at work, its attempt and phase, since when, and when it should be done by how long the same updater took on other
machines of the Cluster; what blocks a group; and which fields were not applied to running machines.

Of upgrades in place that annotations ask for (docs/reference/annotations.md): for each group the option, how many of its machines have it, are
in flight or have failed; for each machine the phase and since when, and whether it was marked by hand; what waits, and for what; who holds the
lock of the control plane. Those that have ended are shown by -o wide, json and yaml.

A marked machine is one that Cluster API has chosen, but whose spec it has not changed yet; of a finished one Cluster
API has not noticed yet that its update has ended.

It reads what is recorded on the objects, asks no updater, and changes nothing. What is recorded and cannot be
read is said, and counted as unreadable.

--watch goes on until it is interrupted, or the upgrade that it has seen under way is done: on a terminal it draws the status
anew when it has changed, elsewhere it prints a line for each change. With -o json or -o yaml each change prints a whole document.

-o wide adds all steps and groups, versions, operation ids, messages, queued machines and measured durations.

Exit status: 0 when the status was shown, whatever it is, and when a watch has ended; 1 for wrong usage, or when something that is needed
cannot be read.`

const example = `  # How far are the machines of a Cluster?
  windlass status my-cluster -n my-namespace

  # Follow an upgrade to its end
  windlass status my-cluster --watch

  # What holds the upgrade, for a script
  windlass status my-cluster -o json | jq '.upgrade.heldBy'

  # Which machines failed, for a script
  windlass status my-cluster -o json | jq '.updates[] | select(.state == "Failed")'`

// options are the flags of windlass status.
type options struct {
	output string
	prefix string
	watch  bool
	kube   *genericclioptions.ConfigFlags
}

// New returns windlass status.
func New() *cobra.Command {
	o := &options{kube: cli.NewKubeFlags()}
	cmd := &cobra.Command{
		Use:               "status CLUSTER",
		Short:             "Show how the upgrade of a Cluster and the in-place updates of its machines stand",
		Long:              long,
		Example:           example,
		Args:              cli.Reported(cli.ClusterArg),
		ValidArgsFunction: cli.CompleteCluster(o.kube, nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := view.ParseFormat(o.output, view.StatusFormats())
			if err != nil {
				return cli.Report(cmd, view.Table, cli.WrapInput("--output", err))
			}
			if err = cli.CheckPrefix(o.prefix); err == nil {
				err = o.run(cmd, args[0], format)
			}
			if err != nil {
				return cli.Report(cmd, format, err)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	cli.AddFormatFlag(cmd, &o.output, "the status", view.StatusFormats())
	flags.BoolVarP(&o.watch, "watch", "w", false, "go on, and show what changes")
	cli.AddPrefixFlag(cmd, &o.prefix)
	cli.AddKubeFlags(cmd, o.kube)
	return cmd
}

func (o *options) run(cmd *cobra.Command, name string, format view.Format) error {
	m, namespace, err := management.Connect(o.kube)
	if err != nil {
		return err
	}
	m.Prefix = o.prefix
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if o.watch {
		return watch(cmd.Context(), m, key, newScreen(cmd, format))
	}
	facts, err := fetchFacts(cmd.Context(), m, key)
	if err != nil {
		return err
	}
	if err := fetchUpgradeContext(cmd.Context(), m, &facts); err != nil {
		return err
	}
	if err := fetchLock(cmd.Context(), m, &facts); err != nil {
		return err
	}
	now := time.Now()
	return view.WriteStatus(cmd.OutOrStdout(), format, cli.NewScreen(cmd), status.Compute(facts, now), now)
}
