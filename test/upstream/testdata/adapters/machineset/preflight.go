package machineset

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/cluster-api/feature"

	"github.com/windlass-dev/windlass/internal/pool"
)

const preflightFailedRequeueAfter = 15 * time.Second

func shouldRun(enabled, skipped pool.Checks, check clusterv1.MachineSetPreflightCheck) bool {
	return pool.Preflight{Enabled: enabled, Skipped: skipped}.Runs(check)
}

func (r *Reconciler) runPreflightChecks(
	ctx context.Context, cluster *clusterv1.Cluster, ms *clusterv1.MachineSet, _ string,
) ([]string, error) {
	if !feature.Gates.Enabled(feature.MachineSetPreflightChecks) {
		return nil, nil
	}
	template := &unstructured.Unstructured{}
	var err error
	if ref := ms.Spec.Template.Spec.Bootstrap.ConfigRef; pool.SkipsByTemplate(ms) {
		template, err = external.GetObjectFromContractVersionedRef(ctx, r.Client, ref, ms.Namespace)
		if err != nil {
			return nil, err
		}
	}
	p := pool.Preflight{
		MachineSet: ms, Cluster: cluster, Enabled: r.PreflightChecks,
		Skipped:         pool.SkippedChecks(ms, template.GetAnnotations()),
		ClusterTopology: feature.Gates.Enabled(feature.ClusterTopology),
	}
	if p.Needed() {
		p.ControlPlane, err = external.GetObjectFromContractVersionedRef(
			ctx, r.Client, cluster.Spec.ControlPlaneRef, cluster.Namespace)
		if err != nil {
			return nil, err
		}
	}
	return p.Failures()
}
