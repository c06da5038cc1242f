package doctorcmd

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/view"
)

// isFleet reports whether several Clusters are to be examined, if none is named.
func (o *options) isFleet() bool { return o.fleet.IsSet() || o.kube.Namespace != "" }

// checkFleet refuses flags that do not go together.
func (o *options) checkFleet(args []string) error {
	if len(o.files) > 0 && o.fleet.IsSet() {
		return cli.InputErrorf("--filename", "manifests have one Cluster. Fix: omit --all-namespaces and --selector")
	}
	return o.fleet.Check(args)
}

// runFleet shows one row for each Cluster.
func (o *options) runFleet(cmd *cobra.Command, format view.Format) error {
	return cli.CheckFleet(cmd, format, &o.fleet, o.kube, errSick, o.examineOne)
}

// examineOne returns the row of a Cluster. What was read of it is not kept.
func (o *options) examineOne(
	ctx context.Context, m management.Cluster, key types.NamespacedName,
) view.CheckedCluster {
	facts, err := liveFacts(ctx, m, key)
	if err != nil {
		return view.UnreadCluster(key.Namespace, key.Name, err)
	}
	facts.Accepted = o.accept.Names
	return view.ExaminedCluster(examine(facts))
}
