package statuscmd

import (
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/view"
)

const long = `Status shows how far the upgrade of a Cluster and the updates of its machines are, and what they wait for. Start here if
an upgrade does not continue. It changes nothing, and calls no hook and no updater.

Exit codes: 0 the status was shown, whatever it is, or a watch has ended; 1 wrong usage, or a required object cannot be
read.

Without CLUSTER it shows one row for each Cluster of the namespace, or of all with -A: first those that wait for a
person, then those that are held by hooks, then those that move. It reads Clusters, UpgradeGates, and the metadata of
Machines. What you may not read is named.

For the upgrade of a Cluster with a managed topology, it shows the completed steps with their times, the running step
with its machines, the next step, what holds the upgrade and since when, and the expected end at the speed of the
completed steps. It derives the step that is due from the objects, by the rules of windlass manager. A hook that holds
the upgrade comes from the Cluster's condition TopologyReconciled or an UpgradeGate. If the condition and the objects
differ, status shows both. Only windlass manager records steps. With another controller, completed steps come from
Events, and there is no expected end.

For updates in place, it shows for each group the UpdatePolicy and the number of machines by state; for each machine
under update the updater, attempt, phase and expected end; the reason of a blocked group; and fields that were not
applied to running machines. A marked machine was chosen by Cluster API, which has not changed its spec yet. The update
of a finished machine has ended, and Cluster API has not processed that yet.

For upgrades by annotation (docs/reference/annotations.md), it shows for each group the option and the number of
machines that have it, are in flight or have failed; for each machine the phase; what waits and why; and the holder of
the lock of the control plane. -o wide, json and yaml also show upgrades that have ended.

Records that cannot be read are shown as unreadable.

--watch continues until it is interrupted, or until the upgrade that it follows is done. On a terminal it draws a tree,
elsewhere it prints a line for each change. With -o json it prints a document on one line for each change, with -o yaml
a document; so it does without CLUSTER, until it is interrupted. docs/reference/status-output.md has the fields.

--html FILE also writes a page for people who have no terminal: the same, with a picture of the steps. It needs no
script and no network. Without CLUSTER it has the table of the Clusters.

-o wide adds all steps and groups, versions, operation ids, messages, queued machines and measured durations.`

const example = `  # How far are the machines of a Cluster?
  windlass status my-cluster -n my-namespace

  # Which of all Clusters wait for a person?
  windlass status -A

  # Follow all Clusters, for a program
  windlass status -A --watch -o json

  # A page to show around
  windlass status my-cluster --html status.html

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
	fleet  cli.FleetFlags
	watch  bool
	html   string
	kube   *management.Flags
}

// New returns windlass status.
func New() *cobra.Command {
	o := &options{kube: cli.NewKubeFlags()}
	cmd := &cobra.Command{
		Use:               "status [CLUSTER]",
		Short:             "Show the progress of an upgrade and of in-place updates",
		Long:              long,
		Example:           example,
		Args:              cli.Reported(cli.OptionalClusterArg),
		ValidArgsFunction: cli.CompleteCluster(o.kube, nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := view.ParseFormat(o.output, view.StatusFormats())
			if err != nil {
				return cli.Report(cmd, view.Table, cli.WrapInput("--output", err))
			}
			if err = cli.CheckPrefix(o.prefix); err == nil {
				err = o.fleet.Check(args)
			}
			switch {
			case err != nil:
			case len(args) == 0:
				err = o.runFleet(cmd, format)
			default:
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
	flags.StringVar(&o.html, "html", "", "write the status as a page to `FILE` as well; it needs no network")
	cli.MustRegister(cmd.MarkFlagFilename("html", "html"))
	flags.BoolVarP(&o.watch, "watch", "w", false, "continue to show changes")
	cmd.MarkFlagsMutuallyExclusive("html", "watch")
	o.fleet.Add(cmd, "show")
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
	facts, err := m.StatusFacts(cmd.Context(), key)
	if err != nil {
		return err
	}
	if err := m.ReadUpgradeContext(cmd.Context(), &facts); err != nil {
		return err
	}
	if err := m.ReadLock(cmd.Context(), &facts); err != nil {
		return err
	}
	now := time.Now()
	report := status.Compute(facts, now)
	return o.writeAll(
		func() error { return view.WriteStatus(cmd.OutOrStdout(), format, cli.NewScreen(cmd), report, now) },
		func(out io.Writer) error { return view.WriteStatusPage(out, report, now) })
}

// writeAll shows what was read, and writes it as a page where one is asked for.
func (o *options) writeAll(show func() error, page func(io.Writer) error) error {
	file, err := cli.OpenPage(o.html)
	if err != nil {
		return cli.WrapInput("--html", err)
	}
	defer file.Discard()
	return errors.Join(show(), cli.WrapInput("--html", file.Write(page)))
}
