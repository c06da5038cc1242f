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

// Preflight runs the checks that must pass before Machines are created from the template of set, or
// remediated. It returns the messages of those that fail. action names in logs and errors what has
// to wait.
func (r *Run) Preflight(
	ctx context.Context, action string, set *clusterv1.MachineSet,
) ([]string, error) {
	if !feature.Gates.Enabled(feature.MachineSetPreflightChecks) {
		return nil, nil
	}
	skipped, err := r.skippedChecks(ctx, set)
	if err != nil {
		return nil, err
	}
	checks := pool.Preflight{
		MachineSet: set, Cluster: r.Cluster, Enabled: r.PreflightChecks, Skipped: skipped,
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

// successor returns the MachineSet that creates Machines in the place of remediated ones. In a
// kept group that is the one with the present template, whichever MachineSet had the Machine.
func (r *Run) successor() *clusterv1.MachineSet {
	if r.Deployment == nil || !pool.Keeps(r.Policy, r.Deployment) || r.hasRevision() {
		return r.Set
	}
	set := r.Set.DeepCopy()
	set.Spec.Template = *r.Deployment.Spec.Template.DeepCopy()
	return set
}

// skippedChecks reads which checks a MachineSet skips, or else its bootstrap template.
func (r *Run) skippedChecks(
	ctx context.Context, set *clusterv1.MachineSet,
) (pool.Checks, error) {
	if !pool.SkipsByTemplate(set) {
		return pool.SkippedChecks(set, nil), nil
	}
	ref := set.Spec.Template.Spec.Bootstrap.ConfigRef
	_, template, err := objects.FetchTemplate(ctx, r.Client, ref, set.Namespace)
	if err != nil {
		return nil, fmt.Errorf("reading the annotation %s: %w",
			clusterv1.MachineSetSkipPreflightChecksAnnotation, err)
	}
	return pool.SkippedChecks(set, template.GetAnnotations()), nil
}
