package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/view"
)

// FleetFlags choose several Clusters.
type FleetFlags struct {
	// All means those of all namespaces.
	All bool
	// Selector is a label selector; empty for all.
	Selector string
}

// Add adds -A and -l.
func (f *FleetFlags) Add(cmd *cobra.Command, what string) {
	flags := cmd.Flags()
	flags.BoolVarP(&f.All, "all-namespaces", "A", false, what+" the Clusters of all namespaces")
	flags.StringVarP(&f.Selector, "selector", "l", "", what+" the Clusters with these labels")
	CompleteNothing(cmd, "selector")
}

// IsSet reports whether one of the flags is given.
func (f *FleetFlags) IsSet() bool { return f.All || f.Selector != "" }

// Check refuses a Cluster beside the flags.
func (f *FleetFlags) Check(args []string) error {
	if len(args) > 0 && f.IsSet() {
		return InputErrorf("CLUSTER", "with --all-namespaces or --selector, no Cluster is named")
	}
	return nil
}

// Connect returns the management cluster, the namespace to look in, empty for all, and the
// selector.
func (f *FleetFlags) Connect(kube *management.Flags) (management.Cluster, string, labels.Selector, error) {
	selector, err := labels.Parse(f.Selector)
	if err != nil {
		return management.Cluster{}, "", nil, WrapInput("--selector", err)
	}
	m, namespace, err := management.Connect(kube)
	if f.All {
		namespace = ""
	}
	return m, namespace, selector, err
}

// fleetParallel is how many Clusters are examined at a time. All that is read of one is in memory
// meanwhile, and no longer.
const fleetParallel = 4

// EachCluster calls look for each Cluster that the flags choose, a few at a time, and returns what
// it returns in the order of namespaces and names. look gets a management cluster that remembers
// what is the same for all Clusters. EachCluster fails if the Clusters cannot be listed, or if ctx
// ends.
func EachCluster[T any](
	ctx context.Context, f *FleetFlags, kube *management.Flags,
	look func(context.Context, management.Cluster, types.NamespacedName) T,
) ([]T, error) {
	m, namespace, selector, err := f.Connect(kube)
	if err != nil {
		return nil, err
	}
	keys, err := m.ClusterKeys(ctx, namespace, selector)
	if err != nil {
		return nil, err
	}
	if m, err = m.ForFleet(); err != nil {
		return nil, err
	}
	found := make([]T, len(keys))
	var running errgroup.Group
	running.SetLimit(fleetParallel)
	for i, key := range keys {
		running.Go(func() error {
			if ctx.Err() == nil {
				found[i] = look(ctx, m, key)
			}
			return nil
		})
	}
	_ = running.Wait() // No function returns an error.
	return found, ctx.Err()
}

// CheckFleet shows the rows that look returns for the Clusters that the flags choose. The error is bad if one
// of them needs a person; it is not shown again.
func CheckFleet(
	cmd *cobra.Command, format view.Format, f *FleetFlags, kube *management.Flags, bad error,
	look func(context.Context, management.Cluster, types.NamespacedName) view.CheckedCluster,
) error {
	fleet := view.CheckedFleet{AsOf: time.Now().UTC()}
	var err error
	if fleet.Clusters, err = EachCluster(cmd.Context(), f, kube, look); err != nil {
		return err
	}
	fleet.Sort()
	if err := view.WriteCheckedFleet(cmd.OutOrStdout(), format, NewScreen(cmd), fleet); err != nil {
		return err
	}
	if fleet.IsBad() {
		return &ExitError{Code: ExitFailure, Silent: true, Err: bad}
	}
	return nil
}
