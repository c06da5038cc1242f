package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

const planLong = `Plan shows the shortest legal chain of upgrades: every minor for the control plane, as few stops as version
skew allows for workers, and why. It changes nothing.

What runs now comes from one of three places:
  flags       --from, --to, and --group for each worker group
  manifests   -f FILE: a Cluster and its ClusterClass as they are kept in git, or objects as kubectl prints them.
              CLUSTER names one of several Clusters. Without a control plane object among them, the Cluster's
              spec.topology.version is taken to be what runs; --from says otherwise.
  live        CLUSTER, read from the management cluster that the kubeconfig names

--versions, --from and --group override what manifests or the management cluster say.

For manifests and live clusters it also says how machines will be updated by each group's UpdatePolicy and the Updaters,
which may be among the manifests: "in place by X, then Y", "replace: not covered: …", "blocked: …" where the policy
forbids to replace them, or "unknown: …". Updaters are asked what they cover of a change of the version, and of what
KubeadmControlPlane changes with it by itself; that has no effect. One that cannot be asked from here (behind a
Service, a loopback address, or one that machines are handed over to) makes the line unknown. Where a patch of the
ClusterClass uses the version, the line is "version: in place by X; other changes not known: …". Updaters that move kubelets a limited number of minors at once make workers stop more often.

Worker stops depend on the engine: stock Cluster API sends all groups through one shared list (--engine stock, the
default); Windlass lets each group follow its own (--engine windlass).

Exit codes: 0 a plan; 1 a usage or input error; 3 no legal plan exists.

With -o json or -o yaml standard output holds one document and nothing else, also on failure:
  {controlPlaneUpgrades: [{version}], controlPlaneUpdate, workersUpgrades: [{version}],
   groups: [{name, upgrades: [{version}], update}],
   operations: [{operation: ControlPlaneUpgrade|WorkersUpgrade, groups, from, to, reason}]}
  {error: {rule, item, version, message}}
workersUpgrades is the shared list, groups are the groups' own plans. update and controlPlaneUpdate are
{outcome: InPlace|Replace|Blocked|Unknown, policy, updaters, uncovered: [{object, path}], message}; plans from flags
alone have none. --explain adds explanation: [{topic, text}].
error.rule is a rule of the planner, InvalidInput, or ServerError when the management cluster cannot be read.`

const planExample = `  # From v1.29 to v1.33, with the versions that there are machine images for
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

// planOptions are the flags of windlass plan and windlass plan check, as they were given.
type planOptions struct {
	from, to    string
	versions    []string
	groups      []string
	workersFrom []string
	noWorkers   bool
	files       []string
	engine      string
	skewPolicy  string
	output      string
	explain     bool
	kube        *genericclioptions.ConfigFlags
}

func newPlanCommand() *cobra.Command {
	o := &planOptions{kube: newKubeFlags()}
	cmd := &cobra.Command{
		Use:               "plan [CLUSTER]",
		Short:             "Show the shortest legal chain of upgrades, and why",
		Long:              planLong,
		Example:           planExample,
		Args:              reported(optionalClusterArg),
		ValidArgsFunction: completeCluster(o.kube, &o.files),
		// As near as cobra goes by default for commands without arguments.
		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPlan(cmd, o, func(ctx context.Context, in planInput) (planRequest, error) {
				return o.resolve(ctx, cmd, args, in)
			})
		},
	}
	o.addInventoryFlags(cmd)
	o.addVersionsFlag(cmd)
	addFilesFlag(cmd, &o.files)
	o.addPlanFlags(cmd)
	addKubeFlags(cmd, o.kube)
	cmd.AddCommand(newPlanCheckCommand())
	return cmd
}

// addInventoryFlags adds the flags that say what runs and what is asked for.
func (o *planOptions) addInventoryFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.from, "from", "", "`VERSION` that the control plane has, such as v1.29.0")
	flags.StringVar(&o.to, "to", "", "`VERSION` to upgrade to; a Cluster's spec.topology.version when not given")
	flags.StringArrayVar(&o.groups, "group", nil,
		"worker group `NAME[=VERSION][,maxMinorStep=N][,kind=KIND]`; may be repeated. VERSION is the oldest that its machines have, "+
			"--from's when not given; maxMinorStep bounds how many minors it can move at once; KIND is MachineDeployment (the default) or MachinePool")
	flags.StringArrayVar(&o.workersFrom, "workers-from", nil, "`VERSION` of workers whose group needs no name; may be repeated")
	flags.BoolVar(&o.noWorkers, "no-workers", false, "there are no workers")
	completeNothing(cmd, "from", "to", "group", "workers-from")
}

// addPlanFlags adds the flags that say how a plan is made and shown.
func (o *planOptions) addPlanFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.engine, "engine", engineStock, "`ENGINE` that carries the plan out: "+strings.Join(engineNames(), " or "))
	completeValues(cmd, "engine", engineNames()...)
	o.addSkewFlag(cmd, "kubelets")
	addFormatFlag(cmd, &o.output, "the plan", view.Formats())
	flags.BoolVar(&o.explain, "explain", false, "say for each step why it is there, and for each stop that workers skip why that is safe")
}

// addVersionsFlag adds --versions.
func (o *planOptions) addVersionsFlag(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&o.versions, "versions", nil, "`VERSIONS` that there are, comma separated; intermediate versions are chosen from them")
	completeNothing(cmd, "versions")
}

// The engines that can carry out a plan.
const (
	engineStock    = "stock"
	engineWindlass = "windlass"
)

func engineNames() []string { return []string{engineStock, engineWindlass} }

// runPlan parses the flags, resolves them to a request, plans, and shows the plan or why there is none.
func runPlan(cmd *cobra.Command, o *planOptions, resolve func(context.Context, planInput) (planRequest, error)) error {
	in, err := o.parse(cmd.Flags().Changed)
	if err != nil {
		return reportError(cmd, in.format, err)
	}
	r, err := resolve(cmd.Context(), in)
	if err != nil {
		return r.reportFailure(cmd, in, err)
	}
	r.request.Policy = in.policy
	r = r.limitWorkers()
	p, err := plan.Compute(r.request)
	if err != nil {
		return r.reportFailure(cmd, in, err)
	}
	return reportPlan(cmd, in, r, p)
}

// addSkewFlag adds --skew-policy. whose are the kubelets that it is about.
func (o *planOptions) addSkewFlag(cmd *cobra.Command, whose string) {
	var names []string
	for _, p := range version.SkewPolicies() {
		names = append(names, p.Name)
	}
	cmd.Flags().StringVar(&o.skewPolicy, "skew-policy", names[0],
		"`POLICY` for how far "+whose+" may lag: "+strings.Join(names, " or "))
	completeValues(cmd, "skew-policy", names...)
}
