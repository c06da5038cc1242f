package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/view"
)

const upgradeLong = `Upgrade asks for an upgrade in place, by an annotation: of one Machine, or of the machines of a MachineDeployment or a control
plane, one after another. It is carried out by windlass extension, or by windlass manager with --extension-port or --in-place-upgrades.

OPTION is version=v1.31.2 for any updater, or channel=1.31-classic/stable, revision=123 or localPath=/opt/k8s.snap for k8sd.

Then it follows what happens, and prints a line for each change until the upgrade has ended. Changes in quick succession may come as one.
What it refuses at once is what the controllers would refuse: they look at more, such as the versions of other machines.

--retry asks for another try of what has failed, as --to does with the option that has failed. --cancel takes the annotation away: no further machine
begins, and what runs on a machine is followed to its end.

Exit status:
  0  the upgrade has ended well, or with --cancel, nothing runs any longer; with --wait=false or --dry-run, the object itself does not
     forbid it: the other machines of the cluster are not looked at, so it may still be held or refused
  1  wrong usage, or the management cluster cannot be read or written
  3  it was refused, has failed, was cancelled or replaced by another option, or the object is gone; or there is nothing to retry or cancel
  4  it was interrupted, or --timeout has passed: the upgrade goes on

With -o json each change is one line of JSON: {time, change, machine} or {time, change, group}, where machine and group have the fields of
"windlass status -o json" (inPlaceUpgrades). A failure is one more line, {error: {rule, message}}, with the rule Refused (3) or Unfinished (4).
With --dry-run it is one object, {dryRun, kind, namespace, name, annotations, machines}; an annotation that is null is removed.`

const upgradeExample = `  # One machine
  windlass upgrade machine my-machine -n my-namespace --to version=v1.31.2

  # What would be written, and which machines come when?
  windlass upgrade machinedeployment my-pool --to channel=1.31-classic/stable --dry-run

  # A control plane, by the name of its Cluster
  windlass upgrade controlplane my-cluster --to version=v1.31.2 --timeout 1h

  # Try again what has failed; withdraw it
  windlass upgrade machinedeployment my-pool --retry
  windlass upgrade machinedeployment my-pool --cancel`

// upgradeClock is the time, for tests to replace.
type upgradeClock struct {
	now   func() time.Time
	after func(time.Duration) <-chan time.Time
}

func systemClock() upgradeClock { return upgradeClock{now: time.Now, after: time.After} }

// limit returns a context that ends with cause when a time has passed; 0 is no limit.
func (c upgradeClock) limit(
	ctx context.Context, timeout time.Duration, cause error,
) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if timeout > 0 {
		over := c.after(timeout)
		go func() {
			select {
			case <-over:
				cancel(cause)
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// upgradeOptions are the flags of windlass upgrade.
type upgradeOptions struct {
	to, prefix, output          string
	retry, cancel, dryRun, wait bool
	// drain is one of the values of --drain; empty leaves what is there.
	drain   string
	timeout time.Duration
	kube    *genericclioptions.ConfigFlags
	clock   upgradeClock
}

func newUpgradeCommand(clock upgradeClock) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "upgrade",
		Short:   "Upgrade machines in place, by an annotation, and follow it",
		Long:    upgradeLong,
		Example: upgradeExample,
	}
	for _, kind := range []struct {
		kind    upgradeKind
		use     string
		short   string
		aliases []string
	}{
		{kindMachine, "machine NAME", "Upgrade one Machine in place", []string{"machines"}},
		{kindMachineDeployment, "machinedeployment NAME", "Upgrade the machines of a MachineDeployment in place", []string{"machinedeployments", "md"}},
		{kindControlPlane, "controlplane NAME", "Upgrade the machines of a control plane in place; NAME is that of the Cluster or of the control plane object", []string{"controlplanes", "cp"}},
	} {
		o := &upgradeOptions{kube: newKubeFlags(), clock: clock}
		sub := &cobra.Command{
			Use: kind.use, Short: kind.short, Long: kind.short + ".\n\n" + upgradeLong, Aliases: kind.aliases,
			Args:              func(cmd *cobra.Command, args []string) error { return o.report(cmd, oneArg("NAME", "")(cmd, args)) },
			ValidArgsFunction: cobra.NoFileCompletions,
			RunE:              func(cmd *cobra.Command, args []string) error { return o.report(cmd, o.run(cmd, kind.kind, args[0])) },
		}
		o.addFlags(sub)
		cmd.AddCommand(sub)
	}
	return cmd
}

func (o *upgradeOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.to, "to", "", "`OPTION` to upgrade to, such as version=v1.31.2")
	flags.BoolVar(&o.retry, "retry", false, "try again what has failed")
	flags.BoolVar(&o.cancel, "cancel", false, "withdraw the upgrade; what runs on a machine ends")
	flags.StringVar(&o.drain, "drain", "", "whether nodes are drained: `WHAT` is true or false, whatever the UpdatePolicy says, or policy, to go by that again")
	flags.Lookup("drain").NoOptDefVal = drainAlways
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would be written and which machines come when, and write nothing")
	flags.BoolVar(&o.wait, "wait", true, "follow the upgrade to its end")
	flags.DurationVar(&o.timeout, "timeout", 0, "follow for at most this `TIME`, such as 30m; 0 for no limit. The upgrade goes on")
	addFormatFlag(cmd, &o.output, "what is printed", upgradeFormats())
	addPrefixFlag(flags, &o.prefix)
	addKubeFlags(cmd, o.kube)
	cmd.MarkFlagsMutuallyExclusive("to", "retry", "cancel")
	cmd.MarkFlagsMutuallyExclusive("drain", "cancel")
	completeValues(cmd, "drain", drainValues()...)
}

// The values of --drain. The first two are those of the annotation.
const (
	drainAlways   = "true"
	drainNever    = "false"
	drainByPolicy = "policy"
)

func drainValues() []string { return []string{drainAlways, drainNever, drainByPolicy} }

func upgradeFormats() []view.Format { return []view.Format{view.Table, view.JSON} }

// check refuses flags that cannot be carried out.
func (o *upgradeOptions) check() error {
	if _, err := view.ParseFormat(o.output, upgradeFormats()); err != nil {
		return wrapInput("--output", err)
	}
	if o.to == "" && !o.retry && !o.cancel {
		return inputErrorf("--to", "it is missing; say what to upgrade to, such as --to version=v1.31.2, or give --retry or --cancel")
	}
	if o.to != "" {
		if _, err := request.ParseOption(o.to); err != nil {
			return wrapInput("--to", err)
		}
	}
	if o.drain != "" && !slices.Contains(drainValues(), o.drain) {
		return inputErrorf("--drain", "%q is none of %s", o.drain, strings.Join(drainValues(), ", "))
	}
	if o.timeout < 0 {
		return inputErrorf("--timeout", "it is negative")
	}
	return checkPrefix(o.prefix)
}

func (o *upgradeOptions) run(cmd *cobra.Command, kind upgradeKind, name string) error {
	if err := o.check(); err != nil {
		return err
	}
	ctx := cmd.Context()
	m, namespace, err := management.Connect(o.kube)
	if err != nil {
		return err
	}
	m.Prefix = o.prefix
	target, err := findUpgradeTarget(ctx, m, kind, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	before, err := target.read(ctx, m, o.clock.now())
	if err != nil {
		return err
	}
	w, err := o.computeWrite(target, before)
	if err != nil {
		return err
	}
	p := upgradePrinter{linePrinter{out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(), json: o.output == string(view.JSON)}}
	p.noteAll(w.notes)
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
	f := follower{target: target, intent: w.intent, written: written, timeout: o.timeout, clock: o.clock, printer: p, shown: before.quiet()}
	if !o.wait {
		return f.show(ctx, m)
	}
	return f.follow(ctx, m)
}

// report says what went wrong in the format that was asked for.
func (o *upgradeOptions) report(cmd *cobra.Command, err error) error {
	coded, ok := errors.AsType[*cli.ExitError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		format := view.Table
		if o.output == string(view.JSON) {
			format = view.JSON
		}
		return reportError(cmd, format, err)
	case o.output != string(view.JSON):
		return err
	}
	rule := ruleRefused
	if coded.Code == cli.ExitUnfinished {
		rule = ruleUnfinished
	}
	if writeErr := writeLine(cmd.OutOrStdout(), map[string]any{"error": map[string]string{"rule": rule, "message": err.Error()}}); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	coded.Silent = true
	return err
}

// Values of error.rule of windlass upgrade beside those of other commands.
const (
	ruleRefused    = "Refused"
	ruleUnfinished = "Unfinished"
)

// writeLine writes a value as one line of JSON.
func writeLine(out io.Writer, value any) error {
	if err := json.NewEncoder(out).Encode(value); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}
