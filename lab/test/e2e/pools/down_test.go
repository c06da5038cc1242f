package pools_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// testDown sends pools to a version while the extension is down. Nothing is decided, created or
// deleted, not even where the policy permits replacements. The extension's return has the updates
// done.
func (p *plane) testDown(ctx context.Context, t *testing.T) {
	t.Helper()
	var before []rig.Census
	for _, pool := range downPools() {
		before = append(before, p.census(pool.Name))
	}
	if _, err := p.StopChild(ctx, setup.ExtensionName); err != nil {
		t.Fatal(err)
	}
	for _, pool := range downPools() {
		p.Send(ctx, t, pool.Name, nextVersion)
	}
	for _, pool := range downPools() {
		p.History.Await(ctx, t, "waiting until the engine has tried to decide", func() string {
			seen := &clusterv1.MachineDeployment{}
			p.Cached(ctx, t, rig.PoolsCluster, pool.Name, seen)
			if !conditions.IsFalse(seen, clusterv1.MachineDeploymentMachinesUpToDateCondition) {
				return pool.Name + " does not count outdated machines"
			}
			return ""
		})
		if pool.Policy.Fallback == "" {
			c := p.BlockedOwner(ctx, t, pool.Name,
				func(c *metav1.Condition) bool { return c.Reason == coverageUnknown })
			t.Logf("while the extension is down: %s: %s", c.Reason, c.Message)
		}
		for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool.Name) {
			if rig.Marked(&m) || m.Spec.Version != rig.FirstVersion {
				t.Errorf("nothing was decided, and Machine %s is at %s", m.Name, m.Spec.Version)
			}
		}
	}
	if _, err := p.StartChild(ctx, setup.ExtensionName); err != nil {
		t.Fatal(err)
	}
	for i, pool := range downPools() {
		p.awaitPool(ctx, t, pool.Name, nextVersion, int(pool.Replicas))
		p.checkLimits(t, pool.Name, limitsOf(pool))
		rig.CheckCensus(t, before[i], p.census(pool.Name))
	}
}

// downPools are sent to a version while the extension is down. The policy of the second one permits
// replacements.
func downPools() []rig.Pool {
	replaceable := keptPool("down-replaceable")
	replaceable.Policy.Fallback = v1alpha1.FallbackRollingUpdate
	return []rig.Pool{keptPool("down"), replaceable}
}
