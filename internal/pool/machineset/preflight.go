package machineset

import (
	"context"
	"fmt"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/cluster-api/feature"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// Preflight runs the checks that must pass before the MachineSet creates or remediates Machines. It
// returns the messages of those that fail. action names in logs and errors what has to wait.
func (r *Run) Preflight(ctx context.Context, action string) ([]string, error) {
	if !feature.Gates.Enabled(feature.MachineSetPreflightChecks) {
		return nil, nil
	}
	skipped, err := r.skippedChecks(ctx)
	if err != nil {
		return nil, err
	}
	checks := pool.Preflight{
		MachineSet: r.Set, Cluster: r.Cluster, Enabled: r.PreflightChecks, Skipped: skipped,
		ClusterTopology: feature.Gates.Enabled(feature.ClusterTopology),
	}
	if !checks.Needed() {
		return nil, nil
	}
	ref := r.Cluster.Spec.ControlPlaneRef
	checks.ControlPlane, err = external.GetObjectFromContractVersionedRef(
		ctx, r.Client, ref, r.Cluster.Namespace)
	if err != nil {
		return nil, fmt.Errorf("%s: running preflight checks: getting %s %s: %w",
			action, ref.Kind, ref.Name, err)
	}
	failures, err := checks.Failures()
	if err != nil {
		return nil, fmt.Errorf("%s: running preflight checks: %w", action, err)
	}
	if len(failures) > 0 {
		ctrl.LoggerFrom(ctx).Info(action+" on hold. It continues when the preflight checks pass",
			"failures", strings.Join(failures, "; "))
	}
	return failures, nil
}

// skippedChecks reads which checks the MachineSet skips, or else its bootstrap template.
func (r *Run) skippedChecks(ctx context.Context) (pool.Checks, error) {
	if !pool.SkipsByTemplate(r.Set) {
		return pool.SkippedChecks(r.Set, nil), nil
	}
	ref := r.Set.Spec.Template.Spec.Bootstrap.ConfigRef
	_, template, err := objects.FetchTemplate(ctx, r.Client, ref, r.Set.Namespace)
	if err != nil {
		return nil, fmt.Errorf("reading the annotation %s: %w",
			clusterv1.MachineSetSkipPreflightChecksAnnotation, err)
	}
	return pool.SkippedChecks(r.Set, template.GetAnnotations()), nil
}
