package preflightcmd

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/version"
)

// checkFleet refuses flags that do not go together.
func (o *options) checkFleet(format view.Format, args []string) error {
	if len(args) == 0 && format == view.HTML {
		return cli.InputErrorf("--output", "a page is about one Cluster. Fix: name a Cluster, or choose another format")
	}
	return o.fleet.Check(args)
}

// runFleet shows one row for each Cluster. Without a version, each Cluster has a target of its own.
func (o *options) runFleet(cmd *cobra.Command, format view.Format, to version.Version) error {
	manifests, err := readManifests(o.files, cmd.InOrStdin())
	if err != nil {
		return err
	}
	return cli.CheckFleet(cmd, format, &o.fleet, o.kube, errFound,
		func(ctx context.Context, m management.Cluster, key types.NamespacedName) view.CheckedCluster {
			return o.checkOne(ctx, m, key, to, manifests)
		})
}

// checkOne returns the row of a Cluster. What was read of it is not kept.
func (o *options) checkOne(
	ctx context.Context, m management.Cluster, key types.NamespacedName, to version.Version,
	manifests []preflight.Manifest,
) view.CheckedCluster {
	cluster := &clusterv1.Cluster{}
	if err := m.Object(ctx, "Cluster", key, cluster); err != nil {
		return view.UnreadCluster(key.Namespace, key.Name, err)
	}
	if to.IsZero() {
		var why string
		if to, why = ownTarget(cluster); why != "" {
			return view.CheckedCluster{
				Namespace: key.Namespace, Cluster: key.Name, Rank: view.RankSkipped, Verdict: why,
			}
		}
	}
	report, err := o.check(ctx, m, key, to, manifests)
	if passed, ok := errors.AsType[*olderError](err); ok {
		return view.CheckedCluster{
			Namespace: key.Namespace, Cluster: key.Name, From: passed.runs, To: to, Rank: view.RankSkipped,
			Verdict: passed.Error(),
		}
	}
	if err != nil {
		row := view.UnreadCluster(key.Namespace, key.Name, err)
		row.To = to
		return row
	}
	return view.PreflightCluster(report)
}

// ownTarget returns the version that a Cluster is being upgraded to, or why there is none.
func ownTarget(cluster *clusterv1.Cluster) (to version.Version, why string) {
	if !cluster.Spec.Topology.IsDefined() {
		return to, "it has no topology, and so no target. Fix: name one for all with --to"
	}
	glance := status.ComputeGlance(cluster, nil, time.Now())
	if !glance.UnderWay || glance.To.IsZero() {
		return to, "no upgrade is under way. Fix: name a target for all with --to"
	}
	return glance.To, ""
}
