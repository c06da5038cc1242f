package approvecmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/gate"
)

const long = `Approve approves a step of an upgrade that an UpgradeGate holds. Use it if "windlass status" shows that an upgrade needs
approval. An approval holds for one Cluster, one gate and one step: the lifecycle hook and the version. Cluster API asks
the gate again within a minute.

Exit codes: 0 it is done, or was already; 3 nothing waits for approval, or the approval or annotation does not exist;
1 other failures.

Without flags it approves the one step that waits for approval. If several steps wait, choose with --gate or --step, or
approve all with --all-pending. --step with a whole version also approves a future step.

--list shows what holds the Cluster's upgrade and since when, the approvals, and the annotations
before-upgrade.hook.cluster.cluster.x-k8s.io/NAME, which hold an upgrade before it begins. --annotation NAME removes
one.`

const example = `  # What does the upgrade wait for?
  windlass approve my-cluster -n my-namespace --list

  # Approve the step of one gate
  windlass approve my-cluster --gate maintenance

  # Approve beforehand, and take that back
  windlass approve my-cluster --step "before workers v1.32.4"
  windlass approve my-cluster --step "before workers v1.32.4" --revoke`

// options are the flags of windlass approve.
type options struct {
	gate, step, annotation    string
	allPending, list, revoked bool
	kube                      *management.Flags
}

// New returns windlass approve.
func New() *cobra.Command {
	o := &options{kube: cli.NewKubeFlags()}
	cmd := &cobra.Command{
		Use:               "approve CLUSTER",
		Short:             "Approve a step of an upgrade that a gate holds",
		Long:              long,
		Example:           example,
		Args:              cli.ClusterArg,
		ValidArgsFunction: cli.CompleteCluster(o.kube, nil),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.gate, "gate", "", "`NAME` of the UpgradeGate to approve at")
	flags.StringVar(&o.step, "step", "", "`STEP` to approve, such as \"before workers v1.32\"; a whole version such as v1.32.4 also approves in advance")
	flags.BoolVar(&o.allPending, "all-pending", false, "approve all that waits for approval")
	flags.BoolVar(&o.list, "list", false, "show what holds the upgrade, and change nothing")
	flags.BoolVar(&o.revoked, "revoke", false, "withdraw an approval; a step that has begun continues")
	flags.StringVar(&o.annotation, "annotation", "", "take away the annotation "+clusterv1.BeforeClusterUpgradeHookAnnotationPrefix+"/`NAME`")
	cmd.MarkFlagsMutuallyExclusive("list", "gate")
	cmd.MarkFlagsMutuallyExclusive("list", "step")
	cmd.MarkFlagsMutuallyExclusive("list", "all-pending")
	cmd.MarkFlagsMutuallyExclusive("list", "revoke")
	cmd.MarkFlagsMutuallyExclusive("all-pending", "revoke")
	for _, other := range []string{"gate", "step", "all-pending", "list", "revoke"} {
		cmd.MarkFlagsMutuallyExclusive("annotation", other)
	}
	cli.AddKubeFlags(cmd, o.kube)
	cli.CompleteFlag(cmd, "gate", func(ctx context.Context) []string {
		return management.Names[v1alpha1.UpgradeGateList](ctx, o.kube)
	})
	cli.CompleteNothing(cmd, "step", "annotation")
	return cmd
}

func (o *options) run(cmd *cobra.Command, name string) error {
	pattern, err := o.parseStep()
	if err != nil {
		return err
	}
	m, namespace, err := management.Connect(o.kube)
	if err != nil {
		return err
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	held, err := fetchHeld(ctx, m, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	if o.list {
		held.write(out)
		return nil
	}
	writer, err := m.NewClient()
	if err != nil {
		return err
	}
	a := approver{client: writer, config: m.Config, held: held, out: out, now: time.Now()}
	switch {
	case o.annotation != "":
		return a.removeAnnotation(ctx, o.annotation)
	case o.revoked:
		return a.revoke(ctx, held.selectApproved(o.gate, pattern), o.gate != "" || pattern != nil)
	default:
		return a.approve(ctx, held.selectPending(o.gate, pattern), o.allPending || o.gate != "" || pattern != nil, held.explainNone(o.gate, pattern))
	}
}

// parseStep returns nil where no step was given.
func (o *options) parseStep() (*gate.StepPattern, error) {
	if o.step == "" {
		return nil, nil
	}
	pattern, err := gate.ParseStepPattern(o.step)
	if err != nil {
		return nil, cli.WrapInput("--step", err)
	}
	return &pattern, nil
}

// held is what is known about what holds a Cluster's upgrade.
type held struct {
	cluster *clusterv1.Cluster
	gates   []v1alpha1.UpgradeGate
}

func fetchHeld(ctx context.Context, m management.Cluster, key types.NamespacedName) (held, error) {
	h := held{cluster: &clusterv1.Cluster{}}
	if err := m.Object(ctx, "Cluster", key, h.cluster); err != nil {
		return held{}, err
	}
	var err error
	h.gates, err = m.UpgradeGates(ctx, key.Namespace)
	return h, err
}
