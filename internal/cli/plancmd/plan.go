package plancmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/planinput"
	"github.com/windlass-dev/windlass/pkg/plan"
)

const long = `Plan computes the shortest legal chain of upgrades, and shows the reason of each step: every minor for the control
plane, and as few stops for workers as version skew allows. Use it before an upgrade. It changes nothing.

Exit codes: 0 a plan; 1 a usage or input error; 3 no legal plan exists.

The present versions come from one of three places:

  flags       --from, --to, and --group for each worker group
  manifests   -f FILE: a Cluster and its ClusterClass from git, or objects as kubectl prints them. CLUSTER selects
              one of several Clusters. Without a control plane object, plan assumes that the Cluster runs its
              spec.topology.version; --from sets another version.
  live        CLUSTER, read from the management cluster that the kubeconfig names

--versions, --from and --group override manifests and the management cluster. For a Cluster without a topology the
plan is one on paper, with the names of its MachineDeployments and MachinePools: give --to, and --versions beyond the
next minor.

For manifests and live clusters, plan also shows how machines will be updated, by the UpdatePolicy of each group and
the Updaters (manifests can contain both): "in place by X, then Y", "replace: not covered: …", "blocked: …" if the
policy forbids to replace machines, or "unknown: …". It asks Updaters what they cover, which has no effect. The line is
"unknown" if an Updater cannot be asked from here: behind a Service, at a loopback address, or with hand-over. If a
patch of the ClusterClass uses the version, the line is "version: in place by X; other changes not known: …". Updaters
that move kubelets a limited number of minors at once add stops for workers.

Worker stops depend on the engine. Stock Cluster API has one list of stops for all groups (--engine stock). Windlass
manager has one list for each group (--engine windlass). Without --engine, the one counts that drives the live
Cluster, and stock Cluster API for flags and manifests.

Plan shows the known risks of each step: floors, blocks and warnings, with public sources. They change no plan, unless
the UpgradeGraph has spec.knownRisks.action Block. --known-risks replaces the built-in list by a file of yours, which
must have a signature of --known-risks-key.

With -o json or -o yaml standard output holds one document and nothing else, also on failure:
  {controlPlaneUpgrades: [{version}], controlPlaneUpdate, workersUpgrades: [{version}],
   groups: [{name, upgrades: [{version}], update}],
   operations: [{operation: ControlPlaneUpgrade|WorkersUpgrade, groups, from, to, reason}],
   knownRisks: [{id, kind, severity, accepted, summary, condition, fix, fixedIn, sources,
    steps: [{operation, from, to, etcd}]}]}
  {error: {rule, item, version, message}}
workersUpgrades is the shared list, groups are the groups' own plans. update and controlPlaneUpdate are
{outcome: InPlace|Replace|Blocked|Unknown, policy, updaters, uncovered: [{object, path}], message}; plans from flags
alone have none. --explain adds explanation: [{topic, text}].
error.rule is a rule of the planner, InvalidInput, or ServerError when the management cluster cannot be read.`

const example = `  # From v1.29 to v1.33, with the versions that there are machine images for
  windlass plan --from v1.29.0 --to v1.33.0 --versions v1.29.0,v1.30.3,v1.31.2,v1.32.1,v1.33.0

  # Two pools at different versions; the second is updated in place and can move one minor at a time
  windlass plan --from v1.30.3 --to v1.32.1 --versions v1.31.2,v1.32.1 \
    --group pool-a=v1.29.0 --group pool-b=v1.30.3,maxMinorStep=1

  # A Cluster and its ClusterClass from git, with every step explained
  windlass plan -f clusterclass.yaml -f cluster.yaml --to v1.33.0 --explain

  # The Cluster in git asks for the new version already; it runs v1.29.0
  cat clusterclass.yaml cluster.yaml | windlass plan -f - --from v1.29.0

  # A Cluster in the management cluster, for a script
  windlass plan my-cluster -n my-namespace --to v1.33.0 -o json

  # A picture for a pull request
  windlass plan -f manifests/ --to v1.33.0 -o mermaid`

// New returns windlass plan.
func New() *cobra.Command {
	o := &planinput.Options{Kube: cli.NewKubeFlags()}
	cmd := &cobra.Command{
		Use:               "plan [CLUSTER]",
		Short:             "Show the shortest legal chain of upgrades, and why",
		Long:              long,
		Example:           example,
		Args:              cli.Reported(cli.OptionalClusterArg),
		ValidArgsFunction: cli.CompleteCluster(o.Kube, &o.Files),
		// As near as cobra goes by default for commands without arguments.
		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd, o, func(ctx context.Context, in planinput.Input) (planinput.Request, error) {
				in.OnPaper = true
				return o.Resolve(ctx, cmd, args, in)
			})
		},
	}
	o.AddInventoryFlags(cmd)
	o.AddVersionsFlag(cmd)
	cli.AddFilesFlag(cmd, &o.Files)
	o.AddPlanFlags(cmd)
	o.AddAcceptFlag(cmd)
	cli.AddKubeFlags(cmd, o.Kube)
	cmd.AddCommand(newCheck())
	return cmd
}

// run parses the flags, resolves them to a request, plans, and shows the plan or why there is none.
func run(cmd *cobra.Command, o *planinput.Options, resolve func(context.Context, planinput.Input) (planinput.Request, error)) error {
	in, err := o.Parse(cmd.Flags().Changed)
	if err != nil {
		return cli.Report(cmd, in.Format, err)
	}
	r, err := resolve(cmd.Context(), in)
	if err != nil {
		return r.Report(cmd, in, err)
	}
	r.Request.Policy = in.Policy
	if r.Updates != nil {
		r.Updates.Facts.Accepted = in.Accepted
	}
	r = r.LimitWorkers()
	p, err := plan.Compute(r.Request)
	if err != nil {
		return r.Report(cmd, in, err)
	}
	return report(cmd, in, r, p)
}
