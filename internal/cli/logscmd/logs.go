package logscmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/status"
)

const machineLong = `Logs prints the output of the update steps of a Machine on its Linux host, without secrets: for each step a line with
the time, the step and its state, and below it the last lines of its output. Use it if a step has failed or takes long.

Exit codes:
  0  the log was printed; with -f, until the update has ended, with any result, or until it was interrupted
  1  wrong usage, or the management cluster cannot be read
  3  there is no log, or nothing of the operation in it

Only the updaters for Linux hosts, of the kinds Kubeadm, RKE2 and K3s, write such a log. For other updaters, use
"windlass status". The log keeps the newest steps of all attempts. With -f the command follows the log until no update
of the Machine runs.`

// options are the flags of windlass logs.
type options struct {
	follow    bool
	operation string
	tail      int
	prefix    string
	kube      *management.Flags
	clock     cli.Clock
}

// New returns windlass logs.
func New(clock cli.Clock) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Show the output of updates of Linux hosts",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newMachine(clock))
	return cmd
}

func newMachine(clock cli.Clock) *cobra.Command {
	o := &options{kube: cli.NewKubeFlags(), clock: clock}
	cmd := &cobra.Command{
		Use:     "machine NAME",
		Aliases: []string{"machines"},
		Short:   "Show the output of a Machine's update steps on its host",
		Long:    machineLong,
		Example: `  windlass logs machine my-machine -n my-namespace
  windlass logs machine my-machine -f`,
		Args:              cli.OneArg("NAME", ". Fix: name the Machine whose log is to be shown: windlass logs machine NAME -n NAMESPACE"),
		ValidArgsFunction: cli.CompleteArg(o.loggedMachines),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.follow, "follow", "f", false, "follow the log until no update of the Machine runs")
	flags.StringVar(&o.operation, "operation", "", "only the attempt with this `ID`")
	flags.IntVar(&o.tail, "tail", 0, "begin with the last `N` steps; 0 for all that are kept")
	cli.AddPrefixFlag(cmd, &o.prefix)
	cli.AddKubeFlags(cmd, o.kube)
	cli.CompleteNothing(cmd, "operation", "tail")
	return cmd
}

// loggedMachines names the Machines that have a log.
func (o *options) loggedMachines(ctx context.Context) []string {
	var names []string
	for _, name := range management.Names[corev1.ConfigMapList](ctx, o.kube, client.MatchingLabels{v1alpha1.UpdateLogLabel: "true"}) {
		if machine, ok := strings.CutSuffix(name, v1alpha1.UpdateLogSuffix); ok {
			names = append(names, machine)
		}
	}
	return names
}

func (o *options) run(cmd *cobra.Command, name string) error {
	if o.tail < 0 {
		return cli.InputErrorf("--tail", "it is negative")
	}
	if err := cli.CheckPrefix(o.prefix); err != nil {
		return err
	}
	m, namespace, err := management.Connect(o.kube)
	if err != nil {
		return err
	}
	m.Prefix = o.prefix
	r := reader{m: m, machine: types.NamespacedName{Namespace: namespace, Name: name}, operation: o.operation, clock: o.clock}
	printer := printer{LinePrinter: cli.LinePrinter{Out: cmd.OutOrStdout()}}
	seen, err := r.read(cmd.Context())
	if err != nil {
		return err
	}
	if len(seen.entries) == 0 && (!o.follow || !seen.updating) {
		return r.nothing(seen)
	}
	entries := seen.entries
	if o.tail > 0 {
		printer.skip(entries[:max(0, len(entries)-o.tail)])
	}
	if err := printer.print(entries); err != nil || !o.follow {
		return err
	}
	return r.follow(cmd.Context(), seen, &printer)
}

// reader reads the log of a Machine.
type reader struct {
	m         management.Cluster
	machine   types.NamespacedName
	operation string
	clock     cli.Clock
}

// seenLog is what is known of a Machine's log.
type seenLog struct {
	cluster string
	// exists says that there is a log at all; entries are those that are asked for.
	exists  bool
	entries []linuxhost.LogEntry
	// version is the resource version of the log; empty where there is none.
	version string
	// updating says that an update of the Machine goes on.
	updating bool
}

func (r reader) read(ctx context.Context) (seenLog, error) {
	machine := &clusterv1.Machine{}
	if err := r.m.Object(ctx, "Machine", r.machine, machine); err != nil {
		return seenLog{}, err
	}
	seen := seenLog{cluster: machine.Spec.ClusterName, updating: isUpdating(machine, r.m.Prefix, r.clock.Now())}
	kept := &corev1.ConfigMap{}
	err := r.m.Object(ctx, "ConfigMap", r.name(), kept)
	if management.IsGone(err) {
		return seen, nil
	}
	if err != nil {
		return seen, err
	}
	seen.exists, seen.version = true, kept.ResourceVersion
	seen.entries = slices.DeleteFunc(linuxhost.ParseLog(kept.Data[v1alpha1.UpdateLogKey]), func(e linuxhost.LogEntry) bool {
		return r.operation != "" && e.Operation != r.operation
	})
	for i := range seen.entries {
		seen.entries[i].Output = strings.Join(linuxhost.DropReasons(strings.Split(seen.entries[i].Output, "\n")), "\n")
	}
	return seen, nil
}

// name is that of the ConfigMap.
func (r reader) name() types.NamespacedName {
	return types.NamespacedName{Namespace: r.machine.Namespace, Name: r.machine.Name + v1alpha1.UpdateLogSuffix}
}

// isUpdating reports whether an update of a Machine goes on, whoever began it. One that has failed for good does not.
func isUpdating(machine *clusterv1.Machine, prefix string, now time.Time) bool {
	cluster := &clusterv1.Cluster{}
	cluster.Namespace, cluster.Name = machine.Namespace, machine.Spec.ClusterName
	facts := status.Facts{Objects: snapshot.Objects{Cluster: cluster, Machines: []*clusterv1.Machine{machine}}, Prefix: prefix}
	report := status.Compute(facts, now)
	for _, u := range report.Updates {
		if u.State == status.Marked || u.State == status.Queued || u.State == status.Updating {
			return true
		}
	}
	if report.InPlace == nil {
		return false
	}
	return slices.ContainsFunc(report.InPlace.Machines, func(u status.MachineUpgrade) bool {
		return u.State.IsOpen() && u.State != status.UpgradeFailed && u.State != status.UpgradeUnreadable
	})
}

// nothing says why there is nothing to print.
func (r reader) nothing(seen seenLog) error {
	if seen.exists && r.operation != "" {
		return cli.Refusedf("the log of Machine %s has nothing of operation %s. Fix: omit --operation to show the whole log", r.machine, r.operation)
	}
	return cli.Refusedf("the Machine %s has no log: the updaters of the kinds Kubeadm, RKE2 and K3s write one once they work on its host, and no others do; "+
		"how its update stands: windlass status %s -n %s", r.machine, seen.cluster, r.machine.Namespace)
}

// pollInterval is how often the Machine is looked at, which says whether an update goes on; and the log, where it cannot be watched.
const pollInterval = 5 * time.Second

// follow prints what is new until no update goes on. A log that cannot be watched is read now and then.
func (r reader) follow(ctx context.Context, seen seenLog, printer *printer) error {
	watched, err := r.m.NewClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := r.watch(ctx, watched, seen.version)
	for seen.updating {
		select {
		case _, open := <-changes:
			if !open {
				changes = nil
				continue
			}
		case <-r.clock.After(pollInterval):
			if changes == nil {
				changes = r.watch(ctx, watched, seen.version)
			}
		case <-ctx.Done():
			return nil
		}
		seen, err = r.read(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := printer.print(seen.entries); err != nil {
			return err
		}
	}
	return nil
}

// watch gives the log's changes from a version on; nil where they cannot be watched now. It ends with ctx.
func (r reader) watch(ctx context.Context, watched client.WithWatch, version string) <-chan watch.Event {
	w, err := watched.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace(r.machine.Namespace),
		client.MatchingFields{"metadata.name": r.name().Name}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
	if err != nil {
		return nil
	}
	return w.ResultChan()
}

// printer prints entries, and of those that were printed what is new.
type printer struct {
	cli.LinePrinter
	operation string
	printed   map[entryKey]linuxhost.LogEntry
}

// entryKey is what an entry is known by.
type entryKey struct {
	operation string
	step      linuxhost.Name
}

// skip leaves entries out, as long as they stay as they are.
func (p *printer) skip(entries []linuxhost.LogEntry) {
	for _, e := range entries {
		p.isNew(e)
	}
}

// isNew remembers an entry, and gives what was not printed of it.
func (p *printer) isNew(e linuxhost.LogEntry) (output string, isNew bool) {
	if p.printed == nil {
		p.printed = make(map[entryKey]linuxhost.LogEntry)
	}
	key := entryKey{operation: e.Operation, step: e.Step}
	before, ok := p.printed[key]
	p.printed[key] = e
	if !ok {
		return e.Output, true
	}
	if rest, ok := strings.CutPrefix(e.Output, before.Output); ok {
		return strings.TrimPrefix(rest, "\n"), rest != "" || e.State != before.State
	}
	return e.Output, true
}

func (p *printer) print(entries []linuxhost.LogEntry) error {
	var text strings.Builder
	for _, e := range entries {
		output, isNew := p.isNew(e)
		if !isNew {
			continue
		}
		if e.Operation != p.operation {
			p.operation = e.Operation
			fmt.Fprintf(&text, "operation %s\n", cli.OneLine(e.Operation))
		}
		line := fmt.Sprintf("%s  %-18s %s", e.Time.UTC().Format(time.RFC3339), cli.OneLine(string(e.Step)), cli.OneLine(string(e.State)))
		text.WriteString(strings.TrimRight(line, " ") + "\n")
		if output != "" {
			text.WriteString(cli.Indented(output, "    "))
		}
	}
	return p.Print(text.String())
}
