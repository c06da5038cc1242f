package reportcmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/changereport"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/view"
)

const long = `Report documents the upgrade of a Cluster for a change ticket: plan and reality side by side, gates and who approved
what, the times of machines, and failures. It shows the upgrade that is under way, with its expected end, or else the
last one. It changes nothing.

Exit codes: 0 the report was written, whatever it says; 1 wrong usage, or a required object cannot be read.

The report contains only what the objects of the management cluster record. It lists what is not recorded, and for each
part where it comes from and who could have changed it. Run it before Events expire (after one hour by default) to keep
the failures.

Steps and plan are recorded by windlass manager. With another controller, steps come from Events while the upgrade is
under way, and nothing is recorded afterwards.

With -o html it is one page that needs no script and no network, and that can be printed. It lists at most 200 machines,
those that failed, are under way or took longest first, and counts all of them by group. With -o json or -o yaml it is
one document with all machines.`

const example = `  # A page for the change ticket
  windlass report my-cluster -n my-namespace -o html > report.html

  # Who approved what?
  windlass report my-cluster -o json | jq '.gates[] | select(.approval) | {gate, at, version, approval}'

  # The machines that needed more than one attempt
  windlass report my-cluster -o json | jq '.machines[] | select(any(.updaters[]; .attempts > 1))'`

// options are the flags of windlass report.
type options struct {
	output string
	prefix string
	kube   *management.Flags
}

// New returns windlass report.
func New() *cobra.Command {
	o := &options{kube: cli.NewKubeFlags()}
	cmd := &cobra.Command{
		Use:               "report CLUSTER",
		Short:             "Document an upgrade for a change ticket",
		Long:              long,
		Example:           example,
		Args:              cli.Reported(cli.ClusterArg),
		ValidArgsFunction: cli.CompleteCluster(o.kube, nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := view.ParseFormat(o.output, view.ChangeReportFormats())
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
	cli.AddFormatFlag(cmd, &o.output, "the report", view.ChangeReportFormats())
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
	facts, err := fetch(cmd.Context(), m, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	report := changereport.Compute(facts, time.Now())
	return view.WriteChangeReport(cmd.OutOrStdout(), format, cli.NewScreen(cmd), report)
}

// fetch reads what the report is made from. What the user may not read is left out, and named.
func fetch(ctx context.Context, m management.Cluster, key types.NamespacedName) (changereport.Facts, error) {
	var f changereport.Facts
	var err error
	if f.Facts, err = m.StatusFacts(ctx, key); err != nil {
		return f, err
	}
	if err := m.ReadUpgradeContext(ctx, &f.Facts); err != nil {
		return f, err
	}
	unread := func(what string, err error) error {
		if err != nil && management.IgnoreForbidden(err) == nil {
			f.Unread = append(f.Unread, what+": this user may not read them")
			return nil
		}
		return management.IgnoreMissing(err)
	}
	if f.Upgrade != nil && len(f.Upgrade.Gates) == 0 {
		// The context does not tell gates that are forbidden from none.
		gates, err := m.UpgradeGates(ctx, key.Namespace)
		if err := unread("gates and approvals", err); err != nil {
			return f, err
		}
		f.Upgrade.Gates = gates
	}
	warnings, err := management.List[*corev1.Event, corev1.EventList](ctx, m, "Events", management.Scope{
		Where: " of namespace " + key.Namespace,
		Options: []client.ListOption{
			client.InNamespace(key.Namespace), client.MatchingFields{"type": corev1.EventTypeWarning},
		},
	})
	for _, e := range warnings {
		f.Warnings = append(f.Warnings, *e)
	}
	return f, unread("failures that Events tell of", err)
}
