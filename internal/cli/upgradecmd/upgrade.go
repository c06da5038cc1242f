package upgradecmd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/view"
)

const long = `Upgrade sets an annotation that requests an upgrade in place, and follows it: of one Machine, or of the machines of a
MachineDeployment or a control plane, one after another. Use it to upgrade machines without a change of the Cluster's
topology. "windlass extension" carries it out, or "windlass manager" with --extension-port or --in-place-upgrades.

Exit codes:
  0  the upgrade has succeeded; with --cancel, nothing runs any more; with --wait=false or --dry-run, the object itself
     does not forbid the upgrade: the other machines are not checked, so it may still be held or refused
  1  wrong usage, or the management cluster cannot be read or written
  3  it was refused, has failed, was cancelled or replaced by another option, or the object is gone; or there is nothing
     to retry or cancel
  4  it was interrupted, or --timeout has passed: the upgrade continues

OPTION is version=v1.31.2 for any updater, or channel=1.31-classic/stable, revision=123 or localPath=/opt/k8s.snap for
k8sd.

The command follows the upgrade to its end. For a group it prints how many machines are done, which machines begin, wait
or fail, and each error once; for one Machine, its phases. It cuts long messages; "windlass status" shows them in full.
--all prints every change. The last line states the result: what is upgraded, or what failed, why, and what to do.
The command refuses only what the object itself forbids; the controllers check more, such as the versions of other
machines.

--retry tries a failed upgrade again, as --to does with the failed option. --cancel removes the annotation: no other
machine begins, and the changes that run are followed until they end.

With -o json each change is one line of JSON: {time, change, machine} or {time, change, group}, where machine and group have the fields of
"windlass status -o json" (inPlaceUpgrades). A failure is one more line, {error: {rule, message}}, with the rule Refused (3) or Unfinished (4).
With --dry-run it is one object, {dryRun, kind, namespace, name, annotations, machines}; an annotation that is null is removed.`

const example = `  # One machine
  windlass upgrade machine my-machine -n my-namespace --to version=v1.31.2

  # What would be written, and which machines come when?
  windlass upgrade machinedeployment my-pool --to channel=1.31-classic/stable --dry-run

  # A control plane, by the name of its Cluster
  windlass upgrade controlplane my-cluster --to version=v1.31.2 --timeout 1h

  # Try again what has failed; withdraw it
  windlass upgrade machinedeployment my-pool --retry
  windlass upgrade machinedeployment my-pool --cancel`

// options are the flags of windlass upgrade.
type options struct {
	to, prefix, output          string
	retry, cancel, dryRun, wait bool
	// all prints every change.
	all bool
	// drain is one of the values of --drain; empty leaves what is there.
	drain   string
	timeout time.Duration
	kube    *management.Flags
	clock   cli.Clock
}

// New returns windlass upgrade.
func New(clock cli.Clock) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "upgrade",
		Short:   "Upgrade machines in place by annotation, and follow the upgrade",
		Long:    long,
		Example: example,
	}
	for _, kind := range []struct {
		kind    kind
		use     string
		short   string
		aliases []string
	}{
		{kindMachine, "machine NAME", "Upgrade one Machine in place", []string{"machines"}},
		{kindMachineDeployment, "machinedeployment NAME", "Upgrade the machines of a MachineDeployment in place", []string{"machinedeployments", "md"}},
		{kindControlPlane, "controlplane NAME", "Upgrade the machines of a control plane in place", []string{"controlplanes", "cp"}},
	} {
		o := &options{kube: cli.NewKubeFlags(), clock: clock}
		sub := &cobra.Command{
			Use: kind.use, Short: kind.short, Long: kind.short + ".\n\n" + long, Aliases: kind.aliases,
			Args:              func(cmd *cobra.Command, args []string) error { return o.report(cmd, cli.OneArg("NAME", "")(cmd, args)) },
			ValidArgsFunction: cli.CompleteArg(func(ctx context.Context) []string { return o.names(ctx, kind.kind) }),
			RunE:              func(cmd *cobra.Command, args []string) error { return o.report(cmd, o.run(cmd, kind.kind, args[0])) },
		}
		o.addFlags(sub)
		cmd.AddCommand(sub)
	}
	return cmd
}

func (o *options) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.to, "to", "", "`OPTION` to upgrade to, such as version=v1.31.2")
	flags.BoolVar(&o.retry, "retry", false, "try again what has failed")
	flags.BoolVar(&o.cancel, "cancel", false, "withdraw the upgrade; what runs on a machine ends")
	flags.StringVar(&o.drain, "drain", "", "whether nodes are drained: `WHAT` is true or false, whatever the UpdatePolicy says, or policy, to go by that again")
	flags.Lookup("drain").NoOptDefVal = drainAlways
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would be written and which machines come when, and write nothing")
	flags.BoolVar(&o.wait, "wait", true, "follow the upgrade to its end")
	flags.BoolVar(&o.all, "all", false, "print every change; -o json always does")
	flags.DurationVar(&o.timeout, "timeout", 0, "follow for at most this `TIME`, such as 30m; 0 for no limit. The upgrade continues afterwards")
	cli.AddFormatFlag(cmd, &o.output, "what is printed", formats())
	cli.AddPrefixFlag(cmd, &o.prefix)
	cli.AddKubeFlags(cmd, o.kube)
	cmd.MarkFlagsMutuallyExclusive("to", "retry", "cancel")
	cmd.MarkFlagsMutuallyExclusive("drain", "cancel")
	cli.CompleteValues(cmd, "drain", drainValues()...)
	cli.CompleteNothing(cmd, "to", "timeout")
}

// names returns the names that an object of a kind can be called by, for completion.
func (o *options) names(ctx context.Context, of kind) []string {
	switch of {
	case kindMachine:
		return management.Names[clusterv1.MachineList](ctx, o.kube)
	case kindMachineDeployment:
		return management.Names[clusterv1.MachineDeploymentList](ctx, o.kube)
	case kindControlPlane:
		return management.Names[clusterv1.ClusterList](ctx, o.kube)
	}
	return nil
}

// The values of --drain. The first two are those of the annotation.
const (
	drainAlways   = "true"
	drainNever    = "false"
	drainByPolicy = "policy"
)

func drainValues() []string { return []string{drainAlways, drainNever, drainByPolicy} }

func formats() []view.Format { return []view.Format{view.Table, view.JSON} }

// Check refuses flags that cannot be carried out.
func (o *options) check() error {
	if _, err := view.ParseFormat(o.output, formats()); err != nil {
		return cli.WrapInput("--output", err)
	}
	if o.to == "" && !o.retry && !o.cancel {
		return cli.InputErrorf("--to", "it is missing; say what to upgrade to, such as --to version=v1.31.2, or give --retry or --cancel")
	}
	if o.to != "" {
		if _, err := request.ParseOption(o.to); err != nil {
			return cli.WrapInput("--to", err)
		}
	}
	if o.drain != "" && !slices.Contains(drainValues(), o.drain) {
		return cli.InputErrorf("--drain", "%q is none of %s", o.drain, strings.Join(drainValues(), ", "))
	}
	if o.timeout < 0 {
		return cli.InputErrorf("--timeout", "it is negative")
	}
	return cli.CheckPrefix(o.prefix)
}

func (o *options) run(cmd *cobra.Command, kind kind, name string) error {
	if err := o.check(); err != nil {
		return err
	}
	ctx := cmd.Context()
	m, namespace, err := management.Connect(o.kube)
	if err != nil {
		return err
	}
	m.Prefix = o.prefix
	target, err := findTarget(ctx, m, kind, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	before, err := target.read(ctx, m, o.clock.Now())
	if err != nil {
		return err
	}
	w, err := o.computeWrite(target, before)
	if err != nil {
		return err
	}
	p := printer{cli.LinePrinter{Out: cmd.OutOrStdout(), Notes: cmd.ErrOrStderr(), JSON: o.output == string(view.JSON)}}
	p.NoteAll(w.notes)
	if o.dryRun {
		return p.dryRun(target, o.prefix, before, w)
	}
	written, err := writeAnnotations(ctx, m, target, w.annotations)
	if err != nil {
		return err
	}
	if err := p.said(w.done); err != nil {
		return err
	}
	f := follower{
		target: target, intent: w.intent, written: written, timeout: o.timeout, clock: o.clock, printer: p, all: o.all || p.JSON,
		shown: before.quiet(), digest: status.UpgradeDigest{Phases: kind == kindMachine}.Past(before.upgrades),
	}
	if !o.wait {
		return f.show(ctx, m)
	}
	return f.follow(ctx, m)
}

// report says what went wrong in the format that was asked for.
func (o *options) report(cmd *cobra.Command, err error) error {
	coded, ok := errors.AsType[*cli.ExitError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		format := view.Table
		if o.output == string(view.JSON) {
			format = view.JSON
		}
		return cli.Report(cmd, format, err)
	case o.output != string(view.JSON):
		return err
	}
	rule := cli.RuleRefused
	if coded.Code == cli.ExitUnfinished {
		rule = cli.RuleUnfinished
	}
	if writeErr := cli.WriteLine(cmd.OutOrStdout(), map[string]any{"error": map[string]string{"rule": rule, "message": err.Error()}}); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	coded.Silent = true
	return err
}
