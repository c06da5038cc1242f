package doctorcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/view"
)

const long = `Doctor checks whether the machines of a Cluster can be updated in place, what would replace them, and what to fix. It
looks for the engine that drives the Cluster, stock Cluster API or windlass manager. Use it before a change that is to
be made in place. It changes nothing, and asks no updater.

Exit codes: 0 no errors were found; 1 an error was found, or a usage or input error.

Cluster API replaces machines without asking in several cases: if a rollout may surge, at rollout times, if a template
is missing, if its feature gates are off, or if several extensions are registered. Each case is a check. An unknown
result is a Warning, never OK. A finding is an Error if the UpdatePolicy of the group forbids to replace machines
(fallback None), and a Warning if the policy allows it.

Without CLUSTER, with -A, -l or -n, it examines several Clusters, and shows one row for each: first those
that need a person, with the checks that found something and the first finding. A Cluster that cannot be read is a row.

With -f the Cluster comes from manifests. Checks that need a management cluster (the guard, templates) are then Warnings,
and so are those of managers and registered extensions if no manifest has their Deployments and ExtensionConfigs.

Checks: MachinesKept (the result of all others, for each group), Policy, FeatureGates, Extension, Updaters, Guard,
Replicas, Surge, RolloutTimes, Limits, Bounds, Templates, RemovedSettings (flags and feature gates that the version or
the next minor lacks), HealthChecks, Autoscaler, ManagedFields, Topology (an error of the topology's controller,
or a hook that blocks an upgrade for 30 minutes), Webhooks (certificates of Cluster API's webhooks that have expired,
or that nothing renews), Paused, Machines (also a rollout of the control plane that makes no progress, and one that
workers will not follow), Unread.

With -o json or -o yaml standard output holds one document, {namespace, cluster, verdict, worst, findings: [{id,
severity, subject, message, fix, unknown}]}; when the Cluster cannot be read it is {error: {rule, item, version,
message}}. For several Clusters it is {asOf, clusters: [{namespace, cluster, result, verdict, failed, notChecked, warned,
first}]}; result is Unread, Failed, Warned or Passed.`

const example = `  # Can the machines of this Cluster be kept?
  windlass doctor my-cluster -n my-namespace

  # Which Clusters have errors?
  windlass doctor -A

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
	all    bool
	fleet  cli.FleetFlags
	accept cli.AcceptFlag
	kube   *management.Flags
}

// New returns windlass doctor.
func New() *cobra.Command {
	o := &options{kube: cli.NewKubeFlags()}
	cmd := &cobra.Command{
		Use:     "doctor [CLUSTER]",
		Short:   "Check whether machines can be updated in place, and what to fix",
		Long:    long,
		Example: example,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && (len(o.files) > 0 || o.isFleet()) {
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
			if err = o.checkFleet(args); err != nil {
				return cli.Report(cmd, format, err)
			}
			if len(args) == 0 && len(o.files) == 0 {
				return cli.Report(cmd, format, o.runFleet(cmd, format))
			}
			facts, err := o.gather(cmd, cli.FirstOf(args))
			if err != nil {
				return cli.Report(cmd, format, err)
			}
			facts.Accepted = o.accept.Names
			return report(cmd, format, o.all, facts)
		},
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "show also the checks that found nothing wrong")
	o.fleet.Add(cmd, "examine")
	o.accept.Add(cmd, "kubelet/SomeGate or kube-apiserver/--some-flag")
	cli.AddFilesFlag(cmd, &o.files)
	cli.AddFormatFlag(cmd, &o.output, "the findings", view.ReportFormats())
	cli.AddKubeFlags(cmd, o.kube)
	return cmd
}

func examine(facts doctor.Facts) view.Examination {
	findings, verdict := doctor.Examine(facts)
	cluster := facts.Objects.Cluster
	return view.Examination{
		Namespace: cluster.Namespace, Cluster: cluster.Name,
		Verdict: verdict, Worst: doctor.Worst(findings), Findings: findings,
	}
}

func report(cmd *cobra.Command, format view.Format, all bool, facts doctor.Facts) error {
	e := examine(facts)
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
		return manifestFacts(cmd, o.files, o.kube.Namespace, name)
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
		f.Unread = append(f.Unread, doctor.Unread{
			Source: doctor.SourceClass, Problem: classErr.Error(), Fix: "name its file with -f",
		})
	}
	err = errors.Join(err, addPolicies(cmd.Context(), &f))
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
	f.NotInstalled = len(f.Policies) == 0 && isUnserved(m)
	c := collector{Cluster: m, facts: &f}
	for _, step := range []struct {
		source doctor.Source
		read   func(context.Context) error
	}{
		{doctor.SourceEngine, c.readEngine},
		{doctor.SourceClass, c.readClass}, {doctor.SourceUpdaters, c.readUpdaters}, {doctor.SourceNamespace, c.readNamespace},
		{doctor.SourceHealthChecks, c.readHealthChecks}, {doctor.SourceManagers, c.readManagers},
		{doctor.SourceManagers, c.readProvider},
		{doctor.SourceExtensions, c.readExtensions}, {doctor.SourceGuard, c.readGuard}, {doctor.SourceTemplates, c.readTemplates},
		{doctor.SourceGates, c.readGates}, {doctor.SourceGraphs, c.readGraphs},
		{doctor.SourceSettings, c.readSettings}, {doctor.SourceWebhooks, c.readWebhooks},
	} {
		if err := step.read(ctx); err != nil {
			if ctx.Err() != nil {
				return doctor.Facts{}, fmt.Errorf("reading the management cluster: %w", ctx.Err())
			}
			f.Unread = append(f.Unread, doctor.Unread{
				Source: step.source, Problem: strings.ReplaceAll(err.Error(), "\n", "; "),
				Fix: clustercheck.FixUnread(clustercheck.ManagementUser, err),
			})
		}
	}
	f.AutoscalersOff = len(f.Scaled()) > 0 && doctor.AutoscalersOff(m.Autoscalers(ctx))
	err = addPolicies(ctx, &f)
	return f, err
}

// isUnserved reports whether the management cluster does not know UpdatePolicies.
func isUnserved(m management.Cluster) bool {
	kind := v1alpha1.GroupVersion.WithKind("UpdatePolicy").GroupKind()
	_, err := m.Mapper.RESTMapping(kind)
	return meta.IsNoMatchError(err)
}
