package doctorcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/view"
)

const long = `Doctor says whether the machines of a Cluster can be updated in place on stock Cluster API, what would be replaced
and why, and what to change. It changes nothing, and asks no updater.

Cluster API replaces machines without asking in more cases than one: while a rollout may surge, at rollout times that
are set, when a template is missing, when its feature gates are off or more than one extension is registered.
Each of these is a check. What cannot be told is a Warning, never OK. A finding is an Error where a group's
UpdatePolicy forbids to replace machines (fallback None), and a Warning where it allows that.

With -f the Cluster comes from manifests instead of the management cluster that the kubeconfig names. What only a
management cluster can say (managers, registered extensions, the guard, templates) is then a Warning.

Checks: MachinesKept (what all others come to, for each group), Policy, FeatureGates, Extension, Updaters, Guard, Replicas,
Surge, RolloutTimes, Templates, HealthChecks, Paused, Machines, Unread.

Exit codes: 0 no errors were found; 1 an error was found, or a usage or input error.

With -o json or -o yaml standard output holds one document, {namespace, cluster, worst, findings: [{id, severity,
subject, message, "mend", unknown}]}; when the Cluster cannot be read it is {error: {rule, item, version, message}}.`

const example = `  # Can the machines of this Cluster be kept?
  windlass doctor my-cluster -n my-namespace

  # Before it exists
  windlass doctor -f clusterclass.yaml -f cluster.yaml -f updatepolicy.yaml -f updaters.yaml

  # Errors only
  windlass doctor my-cluster -o json | jq '.findings[] | select(.severity == "Error")'`

// errSick is why doctor fails where it found errors; they are shown already.
var errSick = errors.New("errors were found")

// options are the flags of windlass doctor.
type options struct {
	files  []string
	output string
	// all shows also the checks that found nothing wrong.
	all  bool
	kube *genericclioptions.ConfigFlags
}

// New returns windlass doctor.
func New() *cobra.Command {
	o := &options{kube: cli.NewKubeFlags()}
	cmd := &cobra.Command{
		Use:     "doctor CLUSTER",
		Short:   "Say whether a Cluster's machines can be updated in place, and what to change",
		Long:    long,
		Example: example,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(o.files) > 0 && len(args) == 0 {
				return nil
			}
			return cli.Reported(cli.ClusterArg)(cmd, args)
		},
		ValidArgsFunction: cli.CompleteCluster(o.kube, &o.files),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := view.ParseFormat(o.output, view.ReportFormats())
			if err != nil {
				return cli.Report(cmd, view.Table, cli.WrapInput("--output", err))
			}
			facts, err := o.gather(cmd, cli.FirstOf(args))
			if err != nil {
				return cli.Report(cmd, format, err)
			}
			return report(cmd, format, o.all, facts)
		},
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "show also the checks that found nothing wrong")
	cli.AddFilesFlag(cmd, &o.files)
	cli.AddFormatFlag(cmd, &o.output, "the findings", view.ReportFormats())
	cli.AddKubeFlags(cmd, o.kube)
	return cmd
}

func report(cmd *cobra.Command, format view.Format, all bool, facts doctor.Facts) error {
	findings := doctor.Examine(facts)
	cluster := facts.Objects.Cluster
	e := view.Examination{
		Namespace: cluster.Namespace, Cluster: cluster.Name,
		Verdict: doctor.Verdict(facts, findings), Worst: doctor.Worst(findings), Findings: findings,
	}
	screen := cli.NewScreen(cmd)
	screen.All = all
	if err := view.WriteExamination(cmd.OutOrStdout(), format, screen, e); err != nil {
		return err
	}
	if e.Worst == doctor.Error {
		return &cli.ExitError{Code: cli.ExitFailure, Silent: true, Err: errSick}
	}
	return nil
}

// gather collects the facts, from manifests or the management cluster.
func (o *options) gather(cmd *cobra.Command, name string) (doctor.Facts, error) {
	if len(o.files) > 0 {
		return manifestFacts(cmd, o.files, *o.kube.Namespace, name)
	}
	m, namespace, err := management.ConnectUnlessManifests(o.kube)
	if err != nil {
		return doctor.Facts{}, err
	}
	return liveFacts(cmd.Context(), m, types.NamespacedName{Namespace: namespace, Name: name})
}

// ourHandlers are the names under which Windlass registers the hooks.
func ourHandlers() map[string]string {
	return map[string]string{
		"CanUpdateMachine":    hookserver.CanUpdateMachineHandler,
		"CanUpdateMachineSet": hookserver.CanUpdateMachineSetHandler,
		"UpdateMachine":       hookserver.UpdateMachineHandler,
	}
}

func manifestFacts(cmd *cobra.Command, files []string, namespace, name string) (doctor.Facts, error) {
	set, err := manifest.Read(files, cmd.InOrStdin())
	if err != nil {
		return doctor.Facts{}, err
	}
	cluster, err := set.Cluster(namespace, name)
	if err != nil {
		return doctor.Facts{}, err
	}
	f, classErr, err := set.Facts(cluster, time.Now())
	f.Handlers = ourHandlers()
	if classErr != nil && cluster.Spec.Topology.IsDefined() {
		f.Unread = append(f.Unread, doctor.Unread{Source: doctor.SourceClass, Problem: classErr.Error()})
	}
	return f, err
}

// liveFacts reads everything that is examined. What may not be read is left out and named; only the Cluster and its own
// objects must be readable.
func liveFacts(ctx context.Context, m management.Cluster, key types.NamespacedName) (doctor.Facts, error) {
	f := doctor.Facts{Live: true, Now: time.Now(), Handlers: ourHandlers()}
	var err error
	if f.Objects, err = m.AllObjects(ctx, key); err != nil {
		return doctor.Facts{}, err
	}
	if f.Policies, err = m.UpdatePolicies(ctx, key.Namespace); err != nil {
		return doctor.Facts{}, err
	}
	c := collector{Cluster: m, facts: &f}
	for _, step := range []struct {
		source doctor.Source
		read   func(context.Context) error
	}{
		{doctor.SourceClass, c.readClass}, {doctor.SourceUpdaters, c.readUpdaters}, {doctor.SourceNamespace, c.readNamespace},
		{doctor.SourceHealthChecks, c.readHealthChecks}, {doctor.SourceManagers, c.readManagers},
		{doctor.SourceExtensions, c.readExtensions}, {doctor.SourceGuard, c.readGuard}, {doctor.SourceTemplates, c.readTemplates},
	} {
		if err := step.read(ctx); err != nil {
			if ctx.Err() != nil {
				return doctor.Facts{}, fmt.Errorf("reading the management cluster: %w", ctx.Err())
			}
			f.Unread = append(f.Unread, doctor.Unread{Source: step.source, Problem: err.Error()})
		}
	}
	return f, nil
}
