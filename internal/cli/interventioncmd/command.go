package interventioncmd

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/intervention"
)

// verb describes a command.
type verb struct {
	verb        intervention.Verb
	short, long string
}

const exitCodes = `

Exit codes: 0 it is written, or was before and is still to be answered; with --dry-run, it would be; 3 it makes no sense
for the object, and the message says why and what to do; 1 other failures.

The command writes only under the version of an object that it has decided on. If an object changes meanwhile, it reads
and decides again. --dry-run shows which objects would get what, and writes nothing.`

var verbs = []verb{
	{
		intervention.Retry, "Try again what has failed finally",
		`Retry tries updates and upgrades of machines again that have no attempt left. Use it when "windlass status" shows
a Machine as Failed and you have removed the cause. It sets the annotation windlass.dev/update-retry on failed Machines;
on a MachineDeployment or control plane whose upgrade an annotation asks for; and on a MachineDeployment whose rollout
windlass manager holds for a failed canary that is gone, or for groupDeadlineSeconds. What is under way, or is tried
again by itself, is left alone.

An update that was refused before it began has no attempt to retry: the message names the reason.`,
	},
	{
		intervention.Abandon, "End updates in place where they are",
		`Abandon ends updates in place that Cluster API asks for, so that the Machine can get what its owner asks for now.
Set the spec of the owner first: back, or to another version. It sets the annotation windlass.dev/update-abandon on
Machines whose update has begun or is blocked, and leaves alone those whose owner asks for just what their spec has:
they would count as up to date although they are not.

What an update has changed on a host stays; the next update also runs the updaters that the abandoned one did not run.
For an upgrade that an annotation asks for, use "windlass upgrade ... --cancel".`,
	},
	{
		intervention.Pause, "Hold what has not begun",
		`Pause holds updates and upgrades before they begin. What an updater is doing on a machine is not stopped.

cluster            sets spec.paused: Cluster API and Windlass change nothing of the Cluster, and ask updaters that are at
                   work until they end
machinedeployment  sets spec.paused: no further Machine begins. If an annotation asks for the upgrade of the group, it
                   also sets the annotation cluster.x-k8s.io/paused
controlplane       sets the annotation cluster.x-k8s.io/paused on the control plane object
machine            sets the annotation cluster.x-k8s.io/paused on the Machine`,
	},
	{
		intervention.Resume, "Take a pause away",
		`Resume takes spec.paused and the annotation cluster.x-k8s.io/paused away from an object, no matter who set them. Do not
resume a Cluster while "clusterctl move" moves it: clusterctl paused it, and resumes it at the target.`,
	},
}

// kinds are the objects that commands are about.
var kinds = []struct {
	kind    intervention.Kind
	what    string
	aliases []string
}{
	{intervention.Cluster, "a Cluster", []string{"clusters"}},
	{intervention.ControlPlane, "the control plane of a Cluster", []string{"controlplanes", "cp"}},
	{intervention.MachineDeployment, "a MachineDeployment", []string{"machinedeployments", "md"}},
	{intervention.Machine, "one Machine", []string{"machines"}},
}

// options are the flags of a command.
type options struct {
	prefix string
	dryRun bool
	kube   *management.Flags
}

// New returns windlass retry, abandon, pause and resume.
func New() []*cobra.Command {
	commands := make([]*cobra.Command, 0, len(verbs))
	for _, v := range verbs {
		name := string(v.verb)
		cmd := &cobra.Command{
			Use: name, Short: v.short, Long: v.long + exitCodes,
			Example: strings.ReplaceAll(`  # What would be written?
  windlass VERB cluster my-cluster -n my-namespace --dry-run

  # One pool, one Machine
  windlass VERB machinedeployment my-pool -n my-namespace
  windlass VERB machine my-machine -n my-namespace`, "VERB", name),
		}
		for _, k := range kinds {
			cmd.AddCommand(newKind(v, k.kind, v.short+": "+k.what, k.aliases))
		}
		commands = append(commands, cmd)
	}
	return commands
}

func newKind(v verb, kind intervention.Kind, short string, aliases []string) *cobra.Command {
	o := &options{kube: cli.NewKubeFlags()}
	cmd := &cobra.Command{
		Use: string(kind) + " NAME", Short: short, Long: v.long + exitCodes, Aliases: aliases,
		Args: cli.OneArg("NAME", ". Fix: name the "+string(kind)),
		ValidArgsFunction: cli.CompleteArg(func(ctx context.Context) []string {
			return names(ctx, kind, o.kube)
		}),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, v.verb, kind, args[0]) },
	}
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be written, and write nothing")
	cli.AddPrefixFlag(cmd, &o.prefix)
	cli.AddKubeFlags(cmd, o.kube)
	return cmd
}

// names returns the names that an object of a kind can be called by, for completion.
func names(ctx context.Context, kind intervention.Kind, kube *management.Flags) []string {
	switch kind {
	case intervention.Machine:
		return management.Names[clusterv1.MachineList](ctx, kube)
	case intervention.MachineDeployment:
		return management.Names[clusterv1.MachineDeploymentList](ctx, kube)
	case intervention.Cluster, intervention.ControlPlane:
		return management.Names[clusterv1.ClusterList](ctx, kube)
	}
	return nil
}

func (o *options) run(
	cmd *cobra.Command, verb intervention.Verb, kind intervention.Kind, name string,
) error {
	if err := cli.CheckPrefix(o.prefix); err != nil {
		return err
	}
	m, namespace, err := management.Connect(o.kube)
	if err != nil {
		return err
	}
	m.Prefix = o.prefix
	r := reader{Cluster: m, verb: verb, kind: kind}
	r.key.Namespace, r.key.Name = namespace, name
	w := writer{
		printer: cli.LinePrinter{Out: cmd.OutOrStdout(), Notes: cmd.ErrOrStderr()},
		decide: func(ctx context.Context) (intervention.Plan, error) {
			facts, err := r.read(ctx, time.Now())
			if err != nil {
				return intervention.Plan{}, err
			}
			return intervention.Decide(verb, facts)
		},
	}
	if o.dryRun {
		return w.show(cmd.Context())
	}
	if w.client, err = m.NewClient(); err != nil {
		return err
	}
	return w.write(cmd.Context())
}
