package machineset

import (
	"context"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/machineset"
)

func shouldRun(enabled, skipped pool.Checks, check clusterv1.MachineSetPreflightCheck) bool {
	return pool.Preflight{Enabled: enabled, Skipped: skipped}.Runs(check)
}

func (r *Reconciler) runPreflightChecks(
	ctx context.Context, cluster *clusterv1.Cluster, ms *clusterv1.MachineSet, action string,
) ([]string, error) {
	run := &machineset.Run{Reconciler: r.ours(), Cluster: cluster, Set: ms, Start: time.Now()}
	return run.Preflight(ctx, action, ms)
}
