package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

var ahead = inListed("ahead")

// testAhead brings one pool a minor ahead of the other, then changes the target in mid-chain. Stock Cluster API has one list of stops for all pools,
// v1.32 and v1.33 here; the pool that is ahead needs no stop at v1.32.
func (w *world) testAhead(ctx context.Context, t *testing.T) {
	t.Helper()
	v := versions()
	w.AwaitArrived(ctx, t, ahead, v[0])
	w.SetTarget(ctx, t, ahead, v[1])
	w.History.Await(ctx, t, "waiting for the deferred pool to be alone behind", func() string {
		o := w.History.Now(ahead)
		if missing := o.NotReady("ahead", v[1]); missing != "" {
			return missing
		}
		if o.Cluster.Reconciled().Reason != clusterv1.ClusterTopologyReconciledMachineDeploymentsUpgradeDeferredReason {
			return "the condition is " + o.Cluster.Reconciled().Reason
		}
		return ""
	})
	t.Run("refused targets", func(t *testing.T) { w.testRefused(ctx, t) })

	// Upwards in mid-chain: the upgrade to v1.30 is not completed.
	w.Change(ctx, t, ahead, func(c *clusterv1.Cluster) {
		c.Spec.Topology.Version = v[4]
		c.Spec.Topology.Workers.MachineDeployments[0].Metadata.Annotations = nil
	})
	w.AwaitArrived(ctx, t, ahead, v[4])
	w.History.CheckOrder(t, ahead, rig.Ways{"": v[1:], "behind": {v[3], v[4]}, "ahead": {v[1], v[4]}}, 1)
	want := []string{
		"control plane v1.30.0", "ahead v1.30.0", "control plane v1.31.0", "control plane v1.32.0", "behind v1.32.0", "control plane v1.33.0",
		"behind v1.33.0", "ahead v1.33.0",
	}
	if diff := cmp.Diff(want, w.History.Moves(ahead)); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
}

// testRefused: what the webhook refuses, it explains.
func (w *world) testRefused(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, test := range []struct {
		to    string
		wants []string
	}{
		{to: "v1.29.0", wants: []string{"older than the control plane's v1.30.0", "accepted: v1.30.0, v1.31.0, v1.32.0, v1.33.0"}},
		{to: "v1.32.7", wants: []string{"the ClusterClass does not list it", "accepted: v1.30.0, v1.31.0, v1.32.0, v1.33.0"}},
		{to: "latest", wants: []string{"spec.topology.version", "latest"}},
	} {
		err := w.TryChange(ctx, ahead, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = test.to }, client.DryRunAll)
		if err == nil || slices.ContainsFunc(test.wants, func(want string) bool { return !strings.Contains(err.Error(), want) }) {
			t.Errorf("the target %s: %v; want a refusal that says %q", test.to, err, test.wants)
		}
	}
	for _, to := range versions()[1:] {
		if err := w.TryChange(ctx, ahead, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = to }, client.DryRunAll); err != nil {
			t.Errorf("the target %s: %v", to, err)
		}
	}
}
