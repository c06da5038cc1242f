package engine_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

var annotated = inListed("annotated")

// testAnnotations: a mark that blocks the upgrade, two groups at once, one that is deferred and one at which the sequence holds.
func (w *world) testAnnotations(ctx context.Context, t *testing.T) {
	t.Helper()
	v := versions()
	w.AwaitArrived(ctx, t, annotated, v[1])
	mark := clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/freeze"
	w.Annotate(ctx, t, annotated, map[string]any{mark: "", clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation: "2"})
	w.SetTarget(ctx, t, annotated, v[2])
	w.awaitMessage(ctx, t, annotated, "the upgrade to v1.31.0 waits while the Cluster has "+mark)
	if moves := w.History.Moves(annotated); len(moves) > 0 {
		t.Errorf("moved in spite of the mark: %v", moves)
	}

	w.Annotate(ctx, t, annotated, map[string]any{mark: nil})
	w.History.Await(ctx, t, "waiting until only deferred groups are left", func() string {
		o := w.History.Now(annotated)
		for _, name := range []string{"md-0", "md-2"} {
			if missing := o.NotReady(name, v[2]); missing != "" {
				return missing
			}
		}
		if o.Cluster.Reconciled().Reason != clusterv1.ClusterTopologyReconciledMachineDeploymentsUpgradeDeferredReason {
			return "the condition is " + o.Cluster.Reconciled().Reason
		}
		return ""
	})
	w.clearAnnotation(ctx, t, 3)
	w.History.Await(ctx, t, "waiting for the groups that were held", func() string {
		o := w.History.Now(annotated)
		if missing := o.NotReady("md-3", v[2]); missing != "" {
			return missing
		}
		return o.NotReady("md-4", v[2])
	})
	w.clearAnnotation(ctx, t, 1)
	w.AwaitArrived(ctx, t, annotated, v[2])

	way := []string{v[2]}
	w.History.CheckOrder(t, annotated, rig.Ways{"": way, "md-0": way, "md-1": way, "md-2": way, "md-3": way, "md-4": way}, 2)
	want := []string{"control plane v1.31.0", "md-0 v1.31.0", "md-2 v1.31.0", "md-3 v1.31.0", "md-4 v1.31.0", "md-1 v1.31.0"}
	if diff := cmp.Diff(want, w.History.Moves(annotated)); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	if most := mostMoving(w.History.Of(annotated)); most != 2 {
		t.Errorf("at most %d groups moved at once, want 2", most)
	}
}

func (w *world) clearAnnotation(ctx context.Context, t *testing.T, group int) {
	t.Helper()
	w.Change(ctx, t, annotated, func(c *clusterv1.Cluster) {
		c.Spec.Topology.Workers.MachineDeployments[group].Metadata.Annotations = nil
	})
}

// mostMoving is how many groups at most were on their way at one time.
func mostMoving(facts []history.Fact) int {
	most := 0
	history.Replay(facts, func(_ history.Fact, o history.Objects) { most = max(most, len(rig.Moving(o))) })
	return most
}
