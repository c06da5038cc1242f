package planinput

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Options are the flags that say what to plan, as they were given. A verb adds those that it has.
type Options struct {
	From, To    string
	Versions    []string
	groups      []string
	workersFrom []string
	noWorkers   bool
	Files       []string
	Engine      string
	skewPolicy  string
	Output      string
	explain     bool
	Kube        *management.Flags
	risks       cli.RiskFlags
	accept      cli.AcceptFlag
}

// AddInventoryFlags adds the flags that say what runs and what is asked for.
func (o *Options) AddInventoryFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.From, "from", "", "`VERSION` that the control plane has, such as v1.29.0")
	flags.StringVar(&o.To, "to", "", "`VERSION` to upgrade to; a Cluster's spec.topology.version when not given")
	flags.StringArrayVar(&o.groups, "group", nil,
		"worker group `NAME[=VERSION][,maxMinorStep=N][,kind=KIND]`; may be repeated. VERSION is the oldest that its machines have, "+
			"--from's when not given; maxMinorStep bounds how many minors it can move at once; KIND is MachineDeployment (the default) or MachinePool")
	flags.StringArrayVar(&o.workersFrom, "workers-from", nil, "`VERSION` of workers whose group needs no name; may be repeated")
	flags.BoolVar(&o.noWorkers, "no-workers", false, "there are no workers")
	cli.CompleteNothing(cmd, "from", "to", "group", "workers-from")
}

// AddPlanFlags adds the flags that say how a plan is made and shown.
func (o *Options) AddPlanFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.Engine, "engine", "", "`ENGINE` that carries the plan out: "+strings.Join(engineNames(), " or ")+
		"; the one that drives the Cluster when not given, and stock without a management cluster")
	cli.CompleteValues(cmd, "engine", engineNames()...)
	o.AddSkewFlag(cmd, "kubelets")
	cli.AddFormatFlag(cmd, &o.Output, "the plan", view.Formats())
	o.risks.Add(flags, "")
	flags.BoolVar(&o.explain, "explain", false, "say for each step why it is there, and for each stop that workers skip why that is safe")
}

// AddAcceptFlag adds --accept.
func (o *Options) AddAcceptFlag(cmd *cobra.Command) {
	o.accept.Add(cmd, "kubelet/SomeGate or kube-apiserver/--some-flag")
}

// AddVersionsFlag adds --versions.
func (o *Options) AddVersionsFlag(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&o.Versions, "versions", nil, "`VERSIONS` that there are, comma separated; intermediate versions are chosen from them")
	cli.CompleteNothing(cmd, "versions")
}

// The engines that can carry out a plan.
const (
	EngineStock    = "stock"
	EngineWindlass = "windlass"
)

func engineNames() []string { return []string{EngineStock, EngineWindlass} }

// AddSkewFlag adds --skew-policy. whose are the kubelets that it is about.
func (o *Options) AddSkewFlag(cmd *cobra.Command, whose string) {
	var names []string
	for _, p := range version.SkewPolicies() {
		names = append(names, p.Name)
	}
	cmd.Flags().StringVar(&o.skewPolicy, "skew-policy", names[0],
		"`POLICY` for how far "+whose+" may lag: "+strings.Join(names, " or "))
	cli.CompleteValues(cmd, "skew-policy", names...)
}

// Parse parses every flag. On an error the input still has the format, if that much could be parsed, so that the
// error is shown in it. The function given reports whether a flag was given at all.
func (o *Options) Parse(given func(flag string) bool) (Input, error) {
	in := Input{
		Format: view.Table, FindEngine: o.Engine == "", noWorkers: o.noWorkers, Explain: o.explain, Accepted: o.accept.Names,
	}
	var err error
	if in.Format, err = view.ParseFormat(o.Output, view.Formats()); err != nil {
		return Input{Format: view.Table}, cli.WrapInput("--output", err)
	}
	if in.Risks, err = o.risks.Load(); err != nil {
		return in, err
	}
	if in.Policy, err = o.parsePolicy(); err != nil {
		return in, err
	}
	if in.From, err = parseVersionFlag("from", o.From, given); err != nil {
		return in, err
	}
	if in.To, err = parseVersionFlag("to", o.To, given); err != nil {
		return in, err
	}
	if in.Versions, err = parseVersionsFlag(o.Versions); err != nil {
		return in, err
	}
	in.Groups, in.unnamed, err = o.parseWorkers()
	return in, err
}

// parseWorkers parses the flags about workers, of which only some go together. It also reports whether the groups have no
// names of their own.
func (o *Options) parseWorkers() (groups []plan.Group, unnamed bool, err error) {
	switch {
	case len(o.Files) > 0 && o.noWorkers:
		return nil, false, cli.InputErrorf("--no-workers", "it cannot be used together with -f; the Cluster there says which workers there are")
	case len(o.Files) > 0 && len(o.workersFrom) > 0:
		return nil, false, cli.InputErrorf("--workers-from", "it cannot be used together with -f. Fix: use --group NAME=VERSION for a group of the Cluster there")
	case len(o.groups) > 0 && len(o.workersFrom) > 0:
		return nil, false, cli.InputErrorf("--workers-from", "it cannot be used together with --group. Fix: give each group its version there")
	case o.noWorkers && len(o.groups)+len(o.workersFrom) > 0:
		return nil, false, cli.InputErrorf("--no-workers", "it cannot be used together with --group or --workers-from")
	case len(o.workersFrom) > 0:
		groups, err = parseWorkersFrom(o.workersFrom)
		return groups, true, err
	default:
		groups, err = parseGroups(o.groups)
		return groups, false, err
	}
}

func (o *Options) parsePolicy() (plan.Policy, error) {
	skew, err := version.FindSkewPolicy(o.skewPolicy)
	if err != nil {
		return plan.Policy{}, cli.WrapInput("--skew-policy", err)
	}
	policy := plan.Policy{Skew: skew}
	switch o.Engine {
	case EngineStock, "":
		policy.Workers = plan.WorkersShared
	case EngineWindlass:
		policy.Workers = plan.WorkersPerGroup
	default:
		return plan.Policy{}, cli.InputErrorf("--engine", "unknown engine %q: choose one of %q", o.Engine, engineNames())
	}
	return policy, nil
}

// resolveLive makes a request from a Cluster of the management cluster.
func (o *Options) resolveLive(ctx context.Context, name string, in Input) (Request, error) {
	if in.noWorkers || in.unnamed {
		return Request{}, cli.InputErrorf("--no-workers, --workers-from", "they are for plans from flags alone. Fix: use --group NAME=VERSION to override a group of the Cluster")
	}
	m, namespace, err := management.ConnectUnlessManifests(o.Kube)
	if err != nil {
		return Request{}, err
	}
	return ResolveCluster(ctx, m, types.NamespacedName{Namespace: namespace, Name: name}, in)
}

// Resolve makes a request from flags, manifests or the management cluster.
func (o *Options) Resolve(ctx context.Context, cmd *cobra.Command, args []string, in Input) (Request, error) {
	switch {
	case len(o.Files) > 0:
		return resolveManifests(o.Files, cmd.InOrStdin(), o.Kube.Namespace, cli.FirstOf(args), in)
	case len(args) > 0:
		return o.resolveLive(ctx, args[0], in)
	default:
		return ResolveFlags(in, elsewhere)
	}
}
