package simulatecmd

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/planinput"
	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/internal/simulate/page"
	"github.com/windlass-dev/windlass/internal/simulate/scenario"
	"github.com/windlass-dev/windlass/internal/simulate/whatif"
	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/plan"
)

const long = `Simulate runs an upgrade of many machines in seconds, under a virtual clock. Use it to learn how long an upgrade takes,
what limits its speed, what it disrupts, and what a failure does. It runs the planner and the engine of "windlass
manager" over simulated machines, and changes nothing.

Exit codes: 0 every run was completed; 1 a usage or input error; 3 no legal plan exists, or a run as configured does not
end; 5 an invariant was violated (with --verify). Of the variants that --compare adds, only a violation counts.

The upgrade comes from one of three places:

  scenario    --scenario FILE: clusters, pools, policies, durations, failures and gates, in a small YAML file; see
              docs/reference/scenario-file.md, and config/samples/simulate for examples
  manifests   -f FILE, as with windlass plan; all Clusters in it, or the one that CLUSTER names
  live        CLUSTER, read from the management cluster that the kubeconfig names

With manifests and a live Cluster, --scenario adds what objects do not contain: durations, failures, gates, faults.
--fit-from takes durations from the last upgrade of another Cluster. --print-scenario writes the whole input as a
scenario that you can edit. The output lists all assumptions.

The same input and --seed give the same output, byte for byte. With several --runs, the output has percentiles; all
other numbers come from the median run.

-o json writes {inputs, assumptions, versions, variants: [{name, description, outcomes, duration, unfinished, violation,
median}]}; durations and times are in seconds. When there is nothing to simulate it is {error: {rule, item, version,
message}}.`

const example = `  # 30,000 nodes in place, beside replacing them, with charts
  windlass simulate --scenario config/samples/simulate/telco.yaml --compare --html telco.html

  # A Cluster of the management cluster, with durations from the last upgrade of another one
  windlass simulate prod -n clusters --to v1.33.0 --fit-from staging --runs 100

  # Before it is merged: all Clusters of a folder, with durations from a file
  windlass simulate -f manifests/ --to v1.33.0 --scenario durations.yaml -o json

  # Write down what would be simulated, edit it, and simulate that
  windlass simulate prod --to v1.33.0 --print-scenario > prod.yaml
  windlass simulate --scenario prod.yaml --verify`

// options are the flags of windlass simulate.
type options struct {
	// plan has those that windlass plan has, too.
	plan          *planinput.Options
	scenario      string
	fitFrom       string
	runs          int
	seed          uint64
	verify        bool
	compare       bool
	html          string
	printScenario bool
}

// New returns windlass simulate.
func New() *cobra.Command {
	o := &options{plan: &planinput.Options{Kube: cli.NewKubeFlags(), Engine: planinput.EngineWindlass}}
	cmd := &cobra.Command{
		Use:               "simulate [CLUSTER]",
		Short:             "Simulate an upgrade: how long it takes, and what it disrupts",
		Long:              long,
		Example:           example,
		Args:              cli.Reported(cli.OptionalClusterArg),
		ValidArgsFunction: cli.CompleteCluster(o.plan.Kube, &o.plan.Files),
		RunE:              func(cmd *cobra.Command, args []string) error { return run(cmd, o, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.scenario, "scenario", "", "`FILE` that says what is simulated, - for standard input; beside CLUSTER or -f, what objects do not say")
	cli.AddFilesFlag(cmd, &o.plan.Files)
	flags.StringVar(&o.plan.From, "from", "", "`VERSION` that the control plane has, instead of what objects say")
	flags.StringVar(&o.plan.To, "to", "", "`VERSION` to upgrade to; what the Cluster or the scenario says when not given")
	flags.StringSliceVar(&o.plan.Versions, "versions", nil, "`VERSIONS` that there are, comma separated, instead of the ClusterClass's")
	o.plan.AddSkewFlag(cmd, "kubelets of objects")
	flags.StringVar(&o.fitFrom, "fit-from", "", "`CLUSTER` whose last upgrade says how long things take: one of those with -f, else of the management cluster")
	flags.IntVar(&o.runs, "runs", scenario.DefaultRuns, "simulate `N` times, with other random numbers each time; the scenario's number when not given")
	flags.Uint64Var(&o.seed, "seed", scenario.DefaultSeed, "`N` that random numbers are made of; the scenario's when not given")
	flags.BoolVar(&o.verify, "verify", false, "check the safety invariants after every step of every run")
	flags.BoolVar(&o.compare, "compare", false, "simulate other ways to do the same upgrade as well: other methods, and more at once")
	flags.StringVarP(&o.plan.Output, "output", "o", string(view.Table), "`FORMAT` of the result: "+strings.Join(formats(), " or "))
	flags.StringVar(&o.html, "html", "", "write a page with charts to `FILE` as well; it needs no network")
	flags.BoolVar(&o.printScenario, "print-scenario", false, "do not simulate: write down what would be, as a scenario")
	cli.AddKubeFlags(cmd, o.plan.Kube)
	cli.MustRegister(cmd.MarkFlagFilename("scenario", "yaml", "yml", "json"))
	cli.MustRegister(cmd.MarkFlagFilename("html", "html"))
	cli.CompleteValues(cmd, "output", formats()...)
	cli.CompleteNothing(cmd, "from", "to", "versions", "runs", "seed")
	cli.CompleteFlag(cmd, "fit-from", cli.ClusterNames(o.plan.Kube, &o.plan.Files))
	cmd.MarkFlagsMutuallyExclusive("print-scenario", "html")
	cmd.MarkFlagsMutuallyExclusive("print-scenario", "compare")
	return cmd
}

// formats are the formats of a report.
func formats() []string { return []string{string(view.Table), string(view.JSON)} }

func run(cmd *cobra.Command, o *options, args []string) error {
	in, err := o.parse(cmd)
	if err != nil {
		return cli.Report(cmd, in.Format, err)
	}
	input, err := o.read(cmd, args, in)
	if err != nil {
		return reportFailure(cmd, in, err)
	}
	input.file = o.override(cmd, input.file)
	s, err := scenario.Translate(input.file, scenario.Options{
		File: input.name, Sources: input.sources, AllMethods: o.compare, Reserved: whatif.ReservedNames(),
	})
	if err != nil {
		return cli.Report(cmd, in.Format, err)
	}
	s.Assumptions = append(slices.Clone(input.notes), s.Assumptions...)
	if o.printScenario {
		return scenario.Print(cmd.OutOrStdout(), input.file.WithBegin(), s.Assumptions)
	}
	if err := checkPlans(s); err != nil {
		return cli.Report(cmd, in.Format, err)
	}
	return o.simulate(cmd, in, s)
}

// simulate simulates the upgrade, and shows the report. It is shown whatever becomes of the page.
func (o *options) simulate(cmd *cobra.Command, in planinput.Input, s scenario.Simulation) error {
	html, err := cli.OpenPage(o.html)
	if err != nil {
		return cli.Report(cmd, in.Format, pageError(err))
	}
	defer html.Discard()
	report, err := o.compute(cmd, s)
	if err != nil {
		return cli.Report(cmd, in.Format, err)
	}
	shown := writeReport(cmd, in.Format, report)
	if err := errors.Join(shown, pageError(html.Write(func(out io.Writer) error { return page.HTML(out, report) }))); err != nil {
		return err
	}
	return outcomeOf(report)
}

// pageError says that a page could not be written.
func pageError(err error) error {
	if err == nil {
		return nil
	}
	return cli.WrapInput("--html", err)
}

// override has flags count more than the scenario.
func (o *options) override(cmd *cobra.Command, f scenario.File) scenario.File {
	if cmd.Flags().Changed("runs") {
		f.Runs = o.runs
	}
	if cmd.Flags().Changed("seed") {
		f.Seed = o.seed
	}
	return f
}

// parse parses the flags. On an error the input still has the format, if that much could be parsed.
func (o *options) parse(cmd *cobra.Command) (planinput.Input, error) {
	in, err := o.plan.Parse(cmd.Flags().Changed)
	if err == nil && !slices.Contains(formats(), string(in.Format)) {
		err = cli.InputErrorf("--output", "a simulation has no format %q: choose one of %q", in.Format, formats())
		in.Format = view.Table
	}
	in.Policy.Workers = plan.WorkersPerGroup
	switch {
	case err != nil:
		return in, err
	case o.runs < 1 || o.runs > scenario.MaxRuns:
		return in, cli.InputErrorf("--runs", "it must be from 1 to %d", scenario.MaxRuns)
	case cmd.Flags().Changed("seed") && o.seed == 0:
		return in, cli.InputErrorf("--seed", "it must be at least 1")
	default:
		return in, nil
	}
}

// checkPlans says why a cluster cannot be upgraded at all, before anything is simulated.
func checkPlans(s scenario.Simulation) error {
	for _, c := range s.Config.Clusters {
		r := plan.Request{
			Inventory: plan.Inventory{ControlPlane: c.ControlPlane.Version}, Target: c.Target, Source: c.Source,
			Policy: plan.Policy{Skew: c.Skew, Workers: plan.WorkersPerGroup},
		}
		for _, p := range c.Pools {
			oldest := p.Version
			if p.Lagging > 0 {
				oldest = p.Oldest
			}
			r.Inventory.Groups = append(r.Inventory.Groups, plan.Group{Name: p.Name, Kind: p.Kind, Version: oldest, MaxMinorStep: p.MaxMinorStep})
		}
		if _, err := plan.Compute(r); err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
	}
	return nil
}

// compute simulates the upgrade, and what it is compared with.
func (o *options) compute(cmd *cobra.Command, s scenario.Simulation) (whatif.Report, error) {
	s.Config.Verify = o.verify
	r := whatif.Request{
		Config: s.Config, Runs: s.Runs, Seed: s.Seed, Assumptions: s.Assumptions, Parallel: runtime.GOMAXPROCS(0), Simulate: fleet.Simulate,
	}
	switch {
	case o.compare:
		r.Variants = whatif.Variants(s.Config)
	case len(s.Variants) > 0:
		r.Variants = []whatif.Variant{{Name: whatif.AsConfigured, Description: "The scenario itself.", Change: func(c fleet.Config) fleet.Config { return c }}}
	}
	for _, v := range s.Variants {
		r.Variants = append(r.Variants, whatif.Variant{Name: v.Name, Description: v.Description, Change: func(c fleet.Config) fleet.Config {
			changed := v.Config
			changed.Verify, changed.Detail, changed.Engine = c.Verify, c.Detail, c.Engine
			return changed
		}})
	}
	progress := newProgress(cmd.ErrOrStderr())
	defer progress.clear()
	r.Progress = progress.show
	return whatif.Compute(cmd.Context(), r)
}

// outcomeOf chooses the exit code. The report says why already.
func outcomeOf(r whatif.Report) error {
	for _, v := range r.Variants {
		if v.Outcomes.Violated > 0 {
			return &cli.ExitError{Code: cli.ExitUnsafe, Silent: true, Err: fmt.Errorf("%s: an invariant was violated", v.Name)}
		}
	}
	if as := r.Variants[0]; as.Outcomes.Stuck+as.Outcomes.GivenUp > 0 {
		return &cli.ExitError{Code: cli.ExitRefused, Silent: true, Err: fmt.Errorf("%s: the upgrade does not end", as.Name)}
	}
	return nil
}
