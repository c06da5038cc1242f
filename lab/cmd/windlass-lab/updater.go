package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/internal/simulated"
)

// updaterStartTimeout bounds the start of an updater's process and the first answer to the extension.
const updaterStartTimeout = time.Minute

// updaterOptions are the flags of `windlass-lab updater`.
type updaterOptions struct {
	updater      setup.SimulatedUpdater
	maxMinors    int32
	protocol     string
	behaviour    string
	delete, list bool
}

func newUpdaterCommand(opts *labOptions) *cobra.Command {
	var o updaterOptions
	cmd := &cobra.Command{
		Use:   "updater [NAME] [-- COMMAND [ARGUMENT...]]",
		Short: "Run a simulated updater, or your own, on the cluster and register it",
		Long: `Run a simulated updater on the cluster, as a process of it, and register it as Updater NAME. It runs until it is deleted
or the cluster is stopped; "windlass-lab status" shows its process as updater-NAME.

--claims names the fields that an updater covers. If all updaters together cover a change, machines that an
UpdatePolicy selects are updated in place. Only machine:/spec/version is really changed, on the simulated
node. For other fields the updater only records that they were done.

With COMMAND the updater is your own program, as a process of the cluster in this folder. It must serve Cluster API's
hooks, or with --protocol HandOver hand-over requests, with TLS at 127.0.0.1. In the arguments, $(PORT_hooks) becomes the port, $(CERT_DIR) the folder with tls.crt and tls.key, and
$(KUBECONFIG) the kubeconfig of the cluster; quote them for the shell. "windlass-lab logs updater-NAME" shows the output.

The cluster has a network of its own, and does not reach an updater that runs outside.

--behaviour makes a running updater misbehave:
  '{"updater": {"mode": "Hang"}}'   modes are Normal, Hang, Stall, Fail, Lie, WrongAnswer; also duration, slowStart, failureRate
  '{"fault": "Error500"}'           faults are Hang, Error500, Nonsense, Empty, OldVersion, Redirect; '{}' ends them`,
		Example: `  windlass-lab updater kubelet
  windlass-lab updater files --order 10 --claims bootstrap:/spec/files --duration 5s
  windlass-lab updater files --behaviour '{"updater": {"mode": "Fail"}}'
  windlass-lab updater files --delete
  windlass-lab updater mine -- ./my-updater --port '$(PORT_hooks)' --cert-dir '$(CERT_DIR)'
  windlass-lab updater mine --protocol HandOver -- ./my-handover --port '$(PORT_hooks)' --cert-dir '$(CERT_DIR)' \
    --kubeconfig '$(KUBECONFIG)'
  windlass-lab updater --list`,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				args = args[:dash]
			}
			return cobra.MaximumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				args, o.updater.Command = args[:dash], args[dash:]
			}
			return o.run(cmd, opts, args)
		},
	}
	flags := cmd.Flags()
	flags.Int32Var(&o.updater.Order, "order", 0, "place among other updaters: the lowest is asked, and runs, first; equals by name")
	flags.StringSliceVar(&o.updater.Claims, "claims", []string{"machine:/spec/version"}, "fields to cover, as PART:/spec/FIELD with machine, infrastructure or bootstrap as PART")
	flags.DurationVar(&o.updater.Duration, "duration", time.Second, "how long an update takes")
	flags.Float64Var(&o.updater.FailureRate, "failure-rate", 0, "part of the updates that fail, from 0 to 1")
	flags.Int32Var(&o.maxMinors, "max-minors", 0, "how many minors it moves a kubelet at once; 0 means any number")
	flags.StringVar(&o.protocol, "protocol", string(v1alpha1.RuntimeHooksProtocol), `how your own program is asked: "RuntimeHooks" or "HandOver"`)
	flags.StringVar(&o.behaviour, "behaviour", "", "JSON for the /behaviour of an updater that runs")
	flags.BoolVar(&o.delete, "delete", false, "unregister the updater and end its process")
	flags.BoolVar(&o.list, "list", false, "show the registered updaters")
	cmd.MarkFlagsMutuallyExclusive("behaviour", "delete", "list")
	cli.CompleteValues(cmd, "protocol", string(v1alpha1.RuntimeHooksProtocol), string(v1alpha1.HandOverProtocol))
	cmd.AddCommand(newUpdaterServeCommand())
	return cmd
}

// check finds what is wrong with the flags, before anything is looked at.
func (o *updaterOptions) check(cmd *cobra.Command, args []string) error {
	if o.list {
		if len(args) > 0 {
			return fmt.Errorf("--list shows all updaters. Fix: omit %q", args[0])
		}
		return nil
	}
	if len(args) == 0 {
		return errors.New("name the updater, as in: windlass-lab updater kubelet; --list shows those that there are")
	}
	o.updater.Name = args[0]
	if cmd.Flags().Changed("behaviour") && o.behaviour == "" {
		return errors.New(`--behaviour is empty: say what to change, as in '{"updater": {"mode": "Fail"}}'`)
	}
	if len(o.updater.Command) > 0 {
		return o.checkCommand(cmd)
	}
	if o.delete || o.behaviour != "" {
		for _, name := range []string{"order", "claims", "duration", "failure-rate", "max-minors", "protocol"} {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s is for starting an updater. Fix: omit the flag, or delete this updater and start it again", name)
			}
		}
		return nil
	}
	if cmd.Flags().Changed("protocol") {
		return errors.New("--protocol is for your own program, and none is given. Fix: add it, as in: -- ./my-updater")
	}
	return o.checkStart()
}

// checkCommand finds the program of an updater of the user's own.
func (o *updaterOptions) checkCommand(cmd *cobra.Command) error {
	for _, name := range []string{"behaviour", "delete", "claims", "duration", "failure-rate"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s and a command cannot be used together: the flag is for simulated updaters", name)
		}
	}
	switch o.updater.Protocol = v1alpha1.UpdaterProtocol(o.protocol); o.updater.Protocol {
	case v1alpha1.RuntimeHooksProtocol, v1alpha1.HandOverProtocol:
	default:
		return fmt.Errorf("--protocol %q is unknown; use %q or %q", o.protocol, v1alpha1.RuntimeHooksProtocol, v1alpha1.HandOverProtocol)
	}
	program, err := exec.LookPath(o.updater.Command[0])
	if err != nil {
		return fmt.Errorf("finding the updater's program: %w. Fix: build it, or name its path, as in ./my-updater", err)
	}
	if program, err = filepath.Abs(program); err != nil {
		return fmt.Errorf("finding the updater's program: %w", err)
	}
	if o.updater.Dir, err = os.Getwd(); err != nil {
		return fmt.Errorf("finding the current folder: %w", err)
	}
	o.updater.Command[0] = program
	return o.checkStart()
}

// checkStart checks what an updater is started with.
func (o *updaterOptions) checkStart() error {
	if err := setup.CheckUpdaterName(o.updater.Name); err != nil {
		return err
	}
	for _, claim := range o.updater.Claims {
		if _, err := simulated.ParseClaim(claim); err != nil {
			return fmt.Errorf("--claims: %w", err)
		}
	}
	switch {
	case o.updater.Duration < 0:
		return fmt.Errorf("--duration %s is negative", o.updater.Duration)
	case math.IsNaN(o.updater.FailureRate) || o.updater.FailureRate < 0 || o.updater.FailureRate > 1:
		return fmt.Errorf("--failure-rate %v is not between 0 and 1", o.updater.FailureRate)
	case o.maxMinors < 0:
		return fmt.Errorf("--max-minors %d is negative", o.maxMinors)
	}
	o.updater.Transitions = v1alpha1.Transitions{MaxMinors: o.maxMinors}
	return nil
}

func (o *updaterOptions) run(cmd *cobra.Command, opts *labOptions, args []string) error {
	if err := o.check(cmd, args); err != nil {
		return err
	}
	silenceLibraries()
	plane, err := connectLab(cmd, opts)
	if err != nil {
		return err
	}
	return o.act(cmd.Context(), opts, plane, cmd.OutOrStdout())
}

func (o *updaterOptions) act(ctx context.Context, opts *labOptions, plane *devplane.Plane, out io.Writer) error {
	name, done := o.updater.Name, "runs and is registered"
	switch {
	case o.list:
		updaters, err := setup.Updaters(ctx, plane)
		if err != nil {
			return err
		}
		return printUpdaters(out, updaters)
	case o.delete:
		if err := setup.RemoveUpdater(ctx, plane, name); err != nil {
			return err
		}
		done = "is deleted"
	case o.behaviour != "":
		if err := setup.SetBehaviour(ctx, plane, name, []byte(o.behaviour)); err != nil {
			return err
		}
		done = "behaves so now"
	default:
		if err := o.start(ctx, opts, plane); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "Updater %s %s.\n", name, done)
	return err
}

func (o *updaterOptions) start(ctx context.Context, opts *labOptions, plane *devplane.Plane) error {
	paths, err := opts.programs()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, updaterStartTimeout, fmt.Errorf("it took longer than %s", updaterStartTimeout))
	defer cancel()
	return setup.AddUpdater(ctx, plane, paths.Lab, o.updater)
}

func printUpdaters(out io.Writer, updaters []setup.UpdaterStatus) error {
	if len(updaters) == 0 {
		_, err := fmt.Fprintln(out, "No updater is registered.")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NAME\tORDER\tPROCESS\tREADY\tMESSAGE")
	for _, u := range updaters {
		process, message := "elsewhere", u.Message
		if u.Process != nil {
			process = string(u.Process.State)
		}
		if u.Ready {
			message = ""
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%t\t%s\n", u.Name, u.Order, process, u.Ready, message)
	}
	return table.Flush()
}
