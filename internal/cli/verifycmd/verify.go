package verifycmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/planinput"
	"github.com/windlass-dev/windlass/internal/simulate/explore"
	"github.com/windlass-dev/windlass/internal/simulate/search"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

const long = `Verify explores every order of events in an upgrade by Windlass' engine, and checks safety rules after every step. Use
it before an upgrade with windlass manager. It changes nothing. It asks updaters what they cover, as windlass plan
does, and calls no other extension.

Exit codes: 0 no study found a fault, and each visited all of its states; 1 a fault was found, not every state was
explored (--max-states, or groups that are not represented), or a usage or input error; 3 no legal plan exists.

It runs the engine itself, the code that "windlass manager" runs, in a simulated world with the versions, groups and
limits of this Cluster. Hooks block, fail or are unreachable; the manager is killed between any two effects;
annotations are set and removed; the target changes; Cluster API's own engine takes over and gives way again. Each of
these happens at every point and in every order; the output shows which are combined.

It checks after each step: the version skew of each machine; that the control plane moves one minor at a time and never
back; the order of hooks, each completed once for each step and none lost; and that no group moves before its turn,
beyond the concurrency, or while an annotation holds it. It checks for every state: without further disturbance, the
upgrade reaches its target.

It then explores the machines of MachineDeployments, by the rules that choose which machine is created, deleted or
updated next: controllers crash, caches lag, machines break, people scale, pause and change a group. It checks
maxSurge and maxUnavailable; maxInFlight of replacements, the canary, batches and partition of the UpdatePolicy; that no
machine is lost, counted twice or replaced against the policy; and that each rollout ends. Machines that people delete,
and machines that break, do not count against these limits. Checks of limits end when Cluster API's engine takes over,
when the policy or its limits are removed, or when the group is paused. maxInFlight of updates in place is not checked.
A few machines represent a group. Groups with the same strategy and policy are explored once. At most 4 different ones
are explored. Notes list what represents each group, and what is not explored.

The Cluster comes from flags, manifests or the management cluster, as with windlass plan. If there are more than 4
groups, 4 represent them. A note names the groups, and states if the answer is not complete because of this.

With -o json or -o yaml standard output holds one document, {namespace, cluster, from, to, safe, complete, states,
transitions, seconds, groups, studies: [{name, varies, states, transitions, complete, seconds}], counterexample:
{study, problem, trace}, notes}; when there is nothing to explore it is {error: {rule, item, version, message}}.
safe without complete is no proof.`

const example = `  # Is the upgrade that this Cluster is on, or would begin with its new version, safe whatever happens?
  windlass verify my-cluster -n my-namespace --to v1.33.0

  # Before it is merged
  windlass verify -f clusterclass.yaml -f cluster.yaml --to v1.33.0

  # From versions alone, for a script
  windlass verify --from v1.30.0 --to v1.36.0 --versions v1.31.0,v1.32.0,v1.33.0,v1.34.0,v1.35.0,v1.36.0 -o json`

// defaultMaxStates bounds one study: about half a minute, and 100 MB.
const defaultMaxStates = 300_000

// outside is what is not explored, and no bound of it.
const outside = "not shown: Cluster API's own engine is put in charge after this one was killed between a step of the control plane and its record, and that step is over by then; " +
	"it does not call that step's hooks"

// errUnsafe and errCutOff are why verify fails; both are shown already.
var (
	errUnsafe = errors.New("a fault was found")
	errCutOff = errors.New("not everything was visited")
)

// New returns windlass verify.
func New() *cobra.Command {
	o := &planinput.Options{Kube: cli.NewKubeFlags(), Engine: planinput.EngineWindlass}
	maxStates := defaultMaxStates
	cmd := &cobra.Command{
		Use:               "verify [CLUSTER]",
		Short:             "Explore every order of events in an upgrade, and check safety",
		Long:              long,
		Example:           example,
		Args:              cli.Reported(cli.OptionalClusterArg),
		ValidArgsFunction: cli.CompleteCluster(o.Kube, &o.Files),
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd, o, args, maxStates)
		},
	}
	flags := cmd.Flags()
	o.AddInventoryFlags(cmd)
	o.AddVersionsFlag(cmd)
	cli.AddFilesFlag(cmd, &o.Files)
	o.AddSkewFlag(cmd, "kubelets")
	cli.AddFormatFlag(cmd, &o.Output, "the result", view.ReportFormats())
	flags.IntVar(&maxStates, "max-states", defaultMaxStates, "visit at most `N` states of each kind of disturbance; what is cut off is said, and is no success")
	cli.CompleteNothing(cmd, "max-states")
	cli.AddKubeFlags(cmd, o.Kube)
	return cmd
}

// run resolves what windlass plan resolves, plans, and explores the plan's execution.
func run(cmd *cobra.Command, o *planinput.Options, args []string, maxStates int) error {
	in, err := o.Parse(cmd.Flags().Changed)
	if err == nil && !slices.Contains(view.ReportFormats(), in.Format) {
		err = cli.InputErrorf("--output", "a verification has no format %q: choose one of %q", in.Format, view.ReportFormats())
		in.Format = view.Table
	}
	if err == nil && maxStates < 1 {
		err = cli.InputErrorf("--max-states", "it must be at least 1")
	}
	if err != nil {
		return cli.Report(cmd, in.Format, err)
	}
	r, err := o.Resolve(cmd.Context(), cmd, args, in)
	if err != nil {
		return r.Report(cmd, in, err)
	}
	r.Request.Policy = plan.Policy{Skew: in.Policy.Skew, Workers: plan.WorkersPerGroup}
	r = r.LimitWorkers()
	result, err := runExplorer(cmd.Context(), r, in, maxStates)
	if err != nil {
		return r.Report(cmd, in, err)
	}
	return report(cmd, in.Format, result)
}

// simulation is what is explored: a Cluster at rest, or one with an upgrade under way where objects say so and flags do not say otherwise.
func simulation(r planinput.Request, in planinput.Input) (explore.Config, error) {
	c := explore.Config{
		ControlPlane: r.Request.Inventory.ControlPlane, Target: r.Request.Target, Sources: []plan.Source{r.Request.Source}, Skew: r.Request.Policy.Skew,
		Groups: simulatedGroups(r.Request.Inventory.Groups, r.Request.Source),
	}
	if r.Updates == nil {
		return c, nil
	}
	objects := r.Updates.Facts.Objects
	overridden := !in.From.IsZero() || slices.ContainsFunc(in.Groups, func(g plan.Group) bool { return !g.Version.IsZero() })
	if overridden || objects.ControlPlane == nil {
		c.Concurrency = snapshot.Concurrency(objects.Cluster)
		return c, nil
	}
	// Both read the same objects: one the oldest machines, the other what objects ask for and what is recorded.
	now, err := snapshot.Take(objects, snapshot.Overrides{})
	if err != nil {
		return c, planinput.Origins{}.Describe(err)
	}
	state, recorded, err := snapshot.Chain(objects)
	if err != nil {
		return c, planinput.Origins{}.Describe(err)
	}
	c.Concurrency, c.Moving, c.Stamp, c.Recorded = state.Concurrency, now.Moving, state.ControlPlane.Stamp, recorded
	for i := range c.Groups {
		g := &c.Groups[i]
		at := slices.IndexFunc(state.Groups, func(read chain.Group) bool { return read.Name == g.Name })
		if at < 0 {
			continue
		}
		read := state.Groups[at]
		g.Oldest, g.Version, g.Defer, g.Hold = g.Version, read.Version, read.Defer, read.Hold
		g.Deleting = read.Deleting
		if !read.Exists {
			g.Oldest = version.Version{}
		}
	}
	for _, left := range state.Leaving {
		c.Groups = append(c.Groups, explore.Group{Name: left.Name, Kind: left.Kind, Version: left.Version, Oldest: left.Oldest, Absent: true, Deleting: left.Deleting})
	}
	slices.SortStableFunc(c.Groups, func(a, b explore.Group) int { return cmp.Compare(a.Kind, b.Kind) })
	return c, nil
}

// runExplorer plans, and visits all that can happen to the plan.
func runExplorer(ctx context.Context, r planinput.Request, in planinput.Input, maxStates int) (view.Verification, error) {
	p, err := plan.Compute(r.Request)
	if err != nil {
		return view.Verification{}, err
	}
	c, err := simulation(r, in)
	if err != nil {
		return view.Verification{}, err
	}
	result := view.Verification{From: c.ControlPlane, To: c.Target, Safe: true, Notes: slices.Clone(r.Notes)}
	if r.Updates != nil {
		cluster := r.Updates.Facts.Objects.Cluster
		result.Namespace, result.Cluster = cluster.Namespace, cluster.Name
	}
	if len(c.Recorded.Pending) > 0 {
		result.Notes = append(result.Notes, fmt.Sprintf("an upgrade is under way: it is explored from where it is, with %s pending", strings.Join(cli.NamesOf(c.Recorded.Pending), ", ")))
	}
	represented := explore.Represent(c.Groups, c.Concurrency)
	c.Groups, result.Complete = represented.Groups, represented.Complete
	if represented.Note != "" {
		result.Notes = append(result.Notes, represented.Note)
	}
	machines := machinesOf(ctx, r, p)
	result.Notes = append(append(result.Notes, machines.notes...), outside)
	result.Complete = result.Complete && !machines.incomplete
	for _, g := range c.Groups {
		result.Groups = append(result.Groups, g.Name)
	}
	err = exploreAll(ctx, &result, explore.Studies(c, p.ControlPlane), machines.rollouts, maxStates)
	return result, err
}

// exploreAll adds what each study finds, until one finds a fault.
func exploreAll(
	ctx context.Context, result *view.Verification, studies []explore.Study, of []rollout, maxStates int,
) error {
	for _, study := range studies {
		began := time.Now()
		report, err := explore.Explore(ctx, study.Config, maxStates)
		if err != nil {
			return fmt.Errorf("exploring %s: %w", study.Name, err)
		}
		found := counterexample(study.Name, report.Violation)
		result.Add(view.VerifiedStudy{
			Name: study.Name, Varies: study.Varies, States: report.States, Transitions: report.Transitions, Complete: report.Complete,
			Seconds: time.Since(began).Seconds(),
		}, found)
		if found != nil {
			return nil
		}
	}
	for _, r := range of {
		study, found, err := r.explore(ctx, maxStates)
		if err != nil {
			return err
		}
		result.Add(study, found)
		if found != nil {
			return nil
		}
	}
	return nil
}

// counterexample returns how a study shows a violation; nil for none.
func counterexample(study string, v *search.Violation) *view.Counterexample {
	if v == nil {
		return nil
	}
	return &view.Counterexample{Study: study, Problem: v.Problem, Trace: v.Trace}
}

// simulatedGroups puts MachineDeployments first, as the engine does.
func simulatedGroups(groups []plan.Group, source plan.Source) []explore.Group {
	var rules []plan.StopRule
	if graph, ok := source.(plan.Graph); ok {
		rules = graph.Stops
	}
	simulated := make([]explore.Group, 0, len(groups))
	for _, kind := range []plan.GroupKind{plan.MachineDeployment, plan.MachinePool} {
		for _, g := range groups {
			if g.Kind == kind || g.Kind == "" && kind == plan.MachineDeployment {
				rule := slices.IndexFunc(rules, func(r plan.StopRule) bool { return slices.Contains(r.Groups, g.Name) }) + 1
				simulated = append(simulated, explore.Group{Name: g.Name, Kind: kind, Version: g.Version, MaxMinorStep: g.MaxMinorStep, Rule: rule})
			}
		}
	}
	return simulated
}

func report(cmd *cobra.Command, format view.Format, v view.Verification) error {
	if err := view.WriteVerification(cmd.OutOrStdout(), format, cli.NewScreen(cmd), v); err != nil {
		return err
	}
	switch {
	case v.Counterexample != nil:
		return &cli.ExitError{Code: cli.ExitFailure, Silent: true, Err: errUnsafe}
	case !v.Complete:
		return &cli.ExitError{Code: cli.ExitFailure, Silent: true, Err: errCutOff}
	default:
		return nil
	}
}
