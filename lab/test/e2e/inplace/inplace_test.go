package inplace_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/demo"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestInPlace runs everything on one plane: a chain of upgrades with the extension killed at random points, and its rest as it is simulated; then pools of a
// second cluster side by side, each with an updater of its own.
func TestInPlace(t *testing.T) {
	ctx, p := start(t)
	// Both clusters take their time to come up. An update that takes any time at all is asked for at least twice, so that the
	// extension can be killed in between.
	workers, duration, kills := int32(1), 300*time.Millisecond, 20
	// Two minors while the extension is killed, and two undisturbed.
	to := version.MustParse("v1.31.14")
	if long() {
		const manyKills = 50
		workers, duration, kills, to = 3, 2*time.Second, manyKills, demo.DefaultTarget()
	}
	c := p.newChain(ctx, t, workers, duration)
	p.Judge(ctx, t, types.NamespacedName{Namespace: c.scenario.Namespace, Name: c.scenario.Cluster.Name})
	pools := []rig.Pool{
		{Name: "retry", Replicas: 1, MaxUnavailable: 1, Policy: v1alpha1.UpdatePolicySpec{MaxAttempts: 1}},
		{Name: "uncovered", Replicas: 1, MaxUnavailable: 1},
		{Name: "drained", Replicas: 1, MaxUnavailable: 1, Policy: v1alpha1.UpdatePolicySpec{Drain: true}},
		{Name: "flight-a", Replicas: 3, MaxUnavailable: 3, NoPolicy: true},
		{Name: "flight-b", Replicas: 3, MaxUnavailable: 3, NoPolicy: true},
	}
	for i := range faults() {
		pools = append(pools, rig.Pool{
			Name: faultPool(i), Replicas: 1, MaxUnavailable: 1, Policy: v1alpha1.UpdatePolicySpec{MaxAttempts: 1, AttemptTimeoutSeconds: patientSeconds},
		})
	}
	p.CreatePools(ctx, t, rig.PoolsCluster, pools)

	t.Run("chain", func(t *testing.T) { c.upgrade(ctx, t, to, kills) })
	if to != demo.DefaultTarget() {
		t.Run("chain as simulated", func(t *testing.T) { c.simulate(ctx, t, to) })
	}
	t.Run("rollout that no hook is asked about", func(t *testing.T) { c.refuseRollout(ctx, t) })
	for _, pool := range pools {
		p.AwaitPool(ctx, t, pool.Name, rig.FirstVersion, int(pool.Replicas))
	}
	before := p.Census(rig.PoolsCluster, nil)
	t.Run("pools", func(t *testing.T) {
		for i, f := range faults() {
			t.Run(f.name, func(t *testing.T) { t.Parallel(); p.testFault(ctx, t, f, faultPool(i)) })
		}
		t.Run("retry and abandon", func(t *testing.T) { t.Parallel(); p.testRetry(ctx, t) })
		t.Run("uncovered", func(t *testing.T) { t.Parallel(); p.testUncovered(ctx, t) })
		t.Run("drain", func(t *testing.T) { t.Parallel(); p.testDrain(ctx, t) })
		t.Run("in flight", func(t *testing.T) { t.Parallel(); p.testInFlight(ctx, t) })
	})
	t.Run("control plane of one machine", func(t *testing.T) { p.testStuck(ctx, t) })
	rig.CheckCensus(t, before, p.Census(rig.PoolsCluster, nil))
	t.Run("way out", func(t *testing.T) { p.testWayOut(ctx, t) })
}
