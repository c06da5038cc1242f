package pools_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// TestPools runs everything on one plane.
func TestPools(t *testing.T) {
	ctx, p := start(t)
	pools := slices.Concat(swapPools())
	var kept []string
	for _, pool := range pools {
		if strings.HasPrefix(pool.Name, keepPrefix) {
			kept = append(kept, pool.Name)
		}
	}
	p.NewUpdater(ctx, t, setup.SimulatedUpdater{Name: "kept", Selector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: metav1.LabelSelectorOpIn, Values: kept}},
	}})
	p.CreatePools(ctx, t, rig.PoolsCluster, pools)
	for _, pool := range pools {
		p.awaitPool(ctx, t, pool.Name, rig.FirstVersion, int(pool.Replicas))
	}
	t.Run("swaps", func(t *testing.T) { p.testSwaps(ctx, t) })
}
