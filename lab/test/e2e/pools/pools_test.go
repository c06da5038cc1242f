package pools_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// parts are what TestPools does, in this order.
var parts = flag.String("parts", "stories,topology,down,kills,swaps", "which parts TestPools does")

func does(part string) bool { return slices.Contains(strings.Split(*parts, ","), part) }

// pools are those of all parts that are done.
func (p *plane) pools() (pools []rig.Pool) {
	if does("stories") {
		for _, s := range p.stories() {
			pools = append(pools, s.pool)
		}
	}
	if does("down") {
		pools = append(pools, append(downPools(), updatingDown())...)
	}
	if does("kills") {
		pools = append(pools, killedPools()...)
	}
	if does("swaps") {
		pools = append(pools, swapPools()...)
	}
	return pools
}

// TestPools runs everything on one plane: pools side by side, and what concerns the extension and
// the manager one after another. The guard is off until stock Cluster API takes part.
func TestPools(t *testing.T) {
	ctx, p := start(t)
	p.createUpdater(ctx, t)
	pools := p.pools()
	p.CreatePools(ctx, t, rig.PoolsCluster, pools)
	p.guard(ctx, t, v1alpha1.GuardDisabled)
	for _, pool := range pools {
		p.awaitPool(ctx, t, pool.Name, rig.FirstVersion, int(pool.Replicas))
	}
	if does("stories") {
		t.Run("stories", func(t *testing.T) { p.testStories(ctx, t) })
	}
	if does("topology") {
		t.Run("topology", func(t *testing.T) { p.testTopology(ctx, t) })
	}
	if does("down") {
		t.Run("extension down", func(t *testing.T) { p.testDown(ctx, t) })
		t.Run("extension down in an update", func(t *testing.T) { p.testDownInUpdate(ctx, t) })
	}
	if does("kills") {
		t.Run("kills", func(t *testing.T) { p.testKills(ctx, t) })
	}
	p.guard(ctx, t, nil)
	if does("swaps") {
		t.Run("swaps", func(t *testing.T) { p.testSwaps(ctx, t) })
	}
	p.checkClean(ctx, t)
}

// createUpdater creates the updater of the pools of kept machines that have none of their own.
func (p *plane) createUpdater(ctx context.Context, t *testing.T) {
	t.Helper()
	var kept []string
	for _, pool := range slices.Concat(swapPools(), killedPools(), downPools()) {
		if !pool.NoPolicy {
			kept = append(kept, pool.Name)
		}
	}
	p.NewUpdater(ctx, t, setup.SimulatedUpdater{
		Name: "kept", Transitions: v1alpha1.Transitions{NeedsDrain: true},
		Selector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool",
				Operator: metav1.LabelSelectorOpIn, Values: kept}},
		},
	})
}

// guard sets the label that turns the guard off; nil turns it on.
func (p *plane) guard(ctx context.Context, t *testing.T, value any) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: rig.PoolsCluster}}
	rig.Patch(ctx, t, p.Client, namespace, map[string]any{
		"metadata": map[string]any{"labels": map[string]any{v1alpha1.GuardLabel: value}},
	})
}

// checkClean waits until no object keeps a mark of a move or an update, and no node is cordoned.
func (p *plane) checkClean(ctx context.Context, t *testing.T) {
	t.Helper()
	p.History.Await(ctx, t, "waiting until no mark and no cordon is left", func() string {
		return strings.Join(append(p.marks(ctx, t), p.cordons(ctx, t, "")...), "; ")
	})
	if does("stories") {
		for _, pool := range blockedPools {
			p.checkCondition(t, pool)
		}
	}
}

// checkCondition checks that the condition of a blocked pool is the extension's from the beginning.
// The extension and the manager both have a reason to write it. Neither writes over the other's.
func (p *plane) checkCondition(t *testing.T, pool string) {
	t.Helper()
	var shown []string
	for _, f := range p.History.Facts(func(f history.Fact) bool {
		return f.Kind == kindDeployment && f.Group == pool
	}) {
		if c := f.Condition(v1alpha1.UpdateBlockedCondition); c != nil {
			shown = append(shown, c.Reason+": "+c.Message)
		}
	}
	shown = slices.Compact(shown)
	if len(shown) != 1 || !strings.Contains(shown[0], "fallback None") {
		t.Errorf("pool %s has shown one after another:\n%s", pool, strings.Join(shown, "\n"))
	}
}

// markKeys are the annotations that are gone when a rollout has ended, beside Cluster API's.
var markKeys = []string{
	v1alpha1.UpdatePlanAnnotation, v1alpha1.UpdateProgressAnnotation, v1alpha1.UpdateOwedAnnotation,
	v1alpha1.MovedFromAnnotation, v1alpha1.ReturnMachinesAnnotation, v1alpha1.NoUpdateAnnotation,
	v1alpha1.HandedOverAnnotation, v1alpha1.FailedCanariesAnnotation,
	v1alpha1.RolloutResumedAnnotation, v1alpha1.RemediationPausedAnnotation,
	v1alpha1.UpdateRetryAnnotation, v1alpha1.UpdateFailedAnnotation,
}

// blockedMarks are those of the MachineSets of blocked pools: an old one moves its Machines to itself,
// so that none is deleted, and says that no update reaches them.
var blockedMarks = []string{
	clusterv1.MachineSetMoveMachinesToMachineSetAnnotation,
	clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation, v1alpha1.NoUpdateAnnotation,
}

// marks names the annotations of moves and updates that no rollout needs any more.
func (p *plane) marks(ctx context.Context, t *testing.T) (found []string) {
	t.Helper()
	for _, kind := range []string{kindDeployment, kindSet, "Machine"} {
		for _, o := range p.list(ctx, t, kind) {
			blocked := kind == kindSet && slices.Contains(blockedPools,
				o.GetLabels()[clusterv1.MachineDeploymentNameLabel])
			for _, key := range slices.Sorted(maps.Keys(o.GetAnnotations())) {
				if blocked && slices.Contains(blockedMarks, key) {
					continue
				}
				if strings.HasPrefix(key, "in-place-updates.internal.cluster.x-k8s.io/") ||
					slices.Contains(markKeys, key) {
					found = append(found, fmt.Sprintf("%s %s keeps %s", kind, o.GetName(), key))
				}
			}
		}
	}
	return found
}

// cordons names the nodes of a pool that are cordoned, or of the cluster if pool is empty.
func (p *plane) cordons(ctx context.Context, t *testing.T, pool string) (found []string) {
	t.Helper()
	of := map[string]bool{}
	for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool) {
		of[m.Status.NodeRef.Name] = true
	}
	nodes := &corev1.NodeList{}
	if err := p.Workload(ctx, t, rig.PoolsCluster).List(ctx, nodes); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		if node := &nodes.Items[i]; node.Spec.Unschedulable && (pool == "" || of[node.Name]) {
			found = append(found, "node "+node.Name+" is cordoned")
		}
	}
	return found
}
