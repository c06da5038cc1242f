package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/k8sdnodes"
	"github.com/windlass-dev/windlass/lab/internal/setup"
)

const k8sdLong = `Run a stand-in for k8sd, the daemon on nodes of Canonical Kubernetes, for all machines of the cluster, as a process of it, and register it as
Updater k8sd. It is for development, and the nodes are simulated. It runs until it is deleted or the cluster is stopped;
"windlass-lab status" shows its process as updater-k8sd.

It gives each Machine a node token, in the Secret CLUSTER-token, and when a refresh ends, the node reports another kubelet version:
  channel=1.32-classic/stable      patch 5 of the minor: v1.32.5
  revision=1234                    of the minor that the machine runs, the patch that the last two digits say: v1.31.34
  localPath=/opt/k8s-v1.32.1.snap  the version in the file's name

With --faults a machine's k8sd misbehaves:
  {"times": 2, "internalError": "disk full"}  two requests are answered 500; also hang, dropBefore, dropAfter, emptyChangeID, nonsense: true
  {"failChanges": "no space"}                 refreshes end in Error, until that is changed
  {"restartFor": "3s"}                        k8sd is away in the middle of each refresh
  {}                                          normal behaviour again`

// k8sdOptions are the flags of `windlass-lab k8sd`.
type k8sdOptions struct {
	duration time.Duration
	faults   []string
	delete   bool
}

func newK8sdCommand(opts *labOptions) *cobra.Command {
	var o k8sdOptions
	cmd := &cobra.Command{
		Use:   "k8sd",
		Short: "Run a simulated k8sd on the cluster, for upgrades by annotation",
		Long:  k8sdLong,
		Example: `  windlass-lab k8sd
  windlass upgrade machinedeployment general --to channel=1.32-classic/stable
  windlass-lab k8sd --faults 'MACHINE={"times": 2, "internalError": "disk full"}'
  windlass-lab k8sd --delete`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd, opts) },
	}
	flags := cmd.Flags()
	flags.DurationVar(&o.duration, "duration", 2*time.Second, "how long a refresh takes; where k8sd runs already, from now on")
	flags.StringArrayVar(&o.faults, "faults", nil, "`MACHINE=JSON`: what goes wrong with a machine, by NAME or NAMESPACE/NAME; may be repeated")
	flags.BoolVar(&o.delete, "delete", false, "unregister it and end its process")
	cmd.MarkFlagsMutuallyExclusive("delete", "duration")
	cmd.MarkFlagsMutuallyExclusive("delete", "faults")
	cmd.AddCommand(newK8sdServeCommand())
	return cmd
}

// behaviour reads the flags, before anything is looked at. The duration counts where it was given.
func (o *k8sdOptions) behaviour(cmd *cobra.Command) (k8sdnodes.Behaviour, error) {
	var b k8sdnodes.Behaviour
	if o.duration < 0 {
		return b, fmt.Errorf("--duration %s is negative", o.duration)
	}
	if cmd.Flags().Changed("duration") {
		b.Duration = &metav1.Duration{Duration: o.duration}
	}
	for _, written := range o.faults {
		machine, text, found := strings.Cut(written, "=")
		if !found || machine == "" {
			return b, fmt.Errorf(`--faults %q: name a machine and what goes wrong, as in my-machine={"failChanges": "no space"}`, written)
		}
		faults, err := k8sdnodes.ParseFaults(text)
		if err != nil {
			return b, fmt.Errorf("--faults of %s: %w", machine, err)
		}
		if b.Faults == nil {
			b.Faults = map[string]k8sdnodes.Faults{}
		}
		if _, twice := b.Faults[machine]; twice {
			return b, fmt.Errorf("--faults names %s twice: say all that goes wrong with it at once", machine)
		}
		b.Faults[machine] = faults
	}
	return b, nil
}

func (o *k8sdOptions) run(cmd *cobra.Command, opts *labOptions) error {
	behaviour, err := o.behaviour(cmd)
	if err != nil {
		return err
	}
	silenceLibraries()
	plane, err := connectLab(cmd, opts)
	if err != nil {
		return err
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	if o.delete {
		if err := setup.RemoveUpdater(ctx, plane, setup.K8sdName); err != nil {
			return err
		}
		_, err := fmt.Fprintln(out, "k8sd is deleted; the Secrets with node tokens stay.")
		return err
	}
	return o.start(ctx, opts, plane, behaviour, out)
}

// start runs k8sd unless it runs, and has it behave.
func (o *k8sdOptions) start(ctx context.Context, opts *labOptions, plane *devplane.Plane, behaviour k8sdnodes.Behaviour, out io.Writer) error {
	paths, err := opts.programs()
	if err != nil {
		return err
	}
	starting, cancel := context.WithTimeoutCause(ctx, updaterStartTimeout, fmt.Errorf("it took longer than %s", updaterStartTimeout))
	defer cancel()
	added, err := setup.AddK8sd(starting, plane, paths.Lab, o.duration)
	if err != nil {
		return err
	}
	said := "k8sd runs already."
	if added {
		said = "k8sd runs for all machines, and is registered as Updater k8sd."
	}
	if behaviour.Faults != nil || behaviour.Duration != nil && !added {
		body, err := json.Marshal(behaviour)
		if err != nil {
			return fmt.Errorf("encoding the behaviour: %w", err)
		}
		if err := setup.SetBehaviour(ctx, plane, setup.K8sdName, body); err != nil {
			return err
		}
		said += " It behaves so now."
	}
	_, err = fmt.Fprintln(out, said)
	return err
}

// k8sdServeOptions are the flags of `windlass-lab k8sd serve`.
type k8sdServeOptions struct {
	kubeconfig         string
	address, statsAddr string
	duration           time.Duration
	log                cli.LogOptions
}

// newK8sdServeCommand is for internal/setup only.
func newK8sdServeCommand() *cobra.Command {
	var o k8sdServeOptions
	cmd := &cobra.Command{
		Use:    "serve",
		Short:  "Be k8sd on all nodes (started by k8sd)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.log.Apply(cmd.ErrOrStderr()); err != nil {
				return err
			}
			if o.kubeconfig == "" || o.address == "" || o.statsAddr == "" {
				return errors.New("--kubeconfig, --address and --stats-addr are needed; \"windlass-lab k8sd\" gives them")
			}
			config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
			if err != nil {
				return fmt.Errorf("loading the kubeconfig: %w", err)
			}
			config.QPS = -1 // the API server's priority and fairness limits this process
			return k8sdnodes.Serve(cmd.Context(), k8sdnodes.Options{Config: config, Address: o.address, Control: o.statsAddr, Duration: o.duration})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the management cluster")
	flags.StringVar(&o.address, "address", "", "loopback address of k8sd")
	flags.StringVar(&o.statsAddr, "stats-addr", "", "loopback address of /stats and /behaviour")
	flags.DurationVar(&o.duration, "duration", 2*time.Second, "how long a refresh takes")
	o.log.AddFlags(flags)
	return cmd
}
