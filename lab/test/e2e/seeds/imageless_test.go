package seeds_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

const (
	// graphed is a namespace whose ClusterClass leaves plans to Windlass' extension, which makes them from an
	// UpgradeGraph.
	graphed      = "graphed"
	graphPlanner = "generate-upgrade-plan." + setup.ExtensionName
	// No machine of a control plane ever starts at graphedBad. graphedFirst is blocked.
	graphedFrom, graphedFirst, graphedTo, graphedBad = "v1.33.0", "v1.34.1", "v1.34.2", "v1.34.99"
	// zombies is the only known risk of the step between their minors for a control plane of one machine.
	zombies = "etcd-36-zombie-members"
)

func (p *plane) createGraph(ctx context.Context, t *testing.T) {
	t.Helper()
	graph := &v1alpha1.UpgradeGraph{Spec: v1alpha1.UpgradeGraphSpec{
		Classes:    []v1alpha1.ClassReference{{Namespace: graphed, Name: rig.ClassName}},
		Versions:   []v1alpha1.Version{graphedFrom, graphedFirst, graphedTo, graphedBad},
		KnownRisks: v1alpha1.KnownRisks{Action: v1alpha1.KnownRisksBlock},
	}}
	graph.Name = graphed
	if err := p.Client.Create(ctx, graph); err != nil {
		t.Fatal(err)
	}
}

// testImageless: an UpgradeGraph blocks a step with a known risk until somebody accepts the risk. The step then goes
// to a version without an image, and is taken back when the target leaves that out.
func (c topology) testImageless(ctx context.Context, t *testing.T) {
	t.Helper()
	c.SetTarget(ctx, t, c.key, graphedFirst)
	c.awaitCondition(ctx, t, clusterv1.ClusterTopologyReconciledFailedReason, zombies)
	// The command reads the same graph.
	planned, err := exec.CommandContext(ctx, c.Programs.Windlass, "plan", c.key.Name, "-n", c.key.Namespace,
		"--kubeconfig", c.KubeconfigPath(), "--to", graphedFirst).CombinedOutput()
	if err == nil || !strings.Contains(string(planned), zombies) {
		t.Errorf("windlass plan: %v, want a failure that names %s:\n%s", err, zombies, planned)
	}

	graph := &v1alpha1.UpgradeGraph{}
	graph.Name = graphed
	rig.Patch(ctx, t, c.Client, graph, map[string]any{"spec": map[string]any{"knownRisks": map[string]any{
		"accepted": []v1alpha1.AcceptedRisk{{ID: zombies, Reason: "no member was ever replaced"}},
	}}})
	// Another question is asked at once.
	c.SetTarget(ctx, t, c.key, graphedBad)
	var stuck *clusterv1.Machine
	c.History.Await(ctx, t, "waiting for a Machine that does not start", func() string {
		machines := &clusterv1.MachineList{}
		if err := c.History.List(ctx, machines); err != nil {
			return err.Error()
		}
		for i := range machines.Items {
			m := &machines.Items[i]
			if m.Namespace == c.key.Namespace && capi.IsControlPlane(m) && m.Spec.Version == graphedBad {
				stuck = m
				return ""
			}
		}
		return "there is none"
	})

	checkRefused(t, c.tryTarget(ctx, "v1.32.0"), "since no machine has joined at "+graphedBad+", not older than "+graphedFrom)
	c.SetTarget(ctx, t, c.key, graphedTo)
	c.History.Await(ctx, t, "waiting until the step is taken back", func() string {
		if at := c.History.Now(c.key).ControlPlane.Version; at != graphedTo {
			return "the control plane is sent to " + at
		}
		return ""
	})
	// KubeadmControlPlane changes nothing beside a Machine that is not healthy.
	if err := c.Client.Delete(ctx, stuck); err != nil {
		t.Fatal(err)
	}
	c.AwaitArrived(ctx, t, c.key, graphedTo)
	want := []string{"control plane " + graphedBad, "control plane " + graphedTo, workers + " " + graphedTo}
	if diff := cmp.Diff(want, c.History.Moves(c.key)); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
}
