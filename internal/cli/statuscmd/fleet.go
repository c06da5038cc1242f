package statuscmd

import (
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/view"
)

// check refuses flags that do not go together.
func (o *options) check(args []string) error {
	switch {
	case len(args) > 0 && (o.all || o.selector != ""):
		return cli.InputErrorf("CLUSTER", "with --all-namespaces or --selector, no Cluster is named")
	case len(args) == 0 && o.watch:
		return cli.InputErrorf("--watch", "it needs a Cluster. Fix: name one")
	}
	return nil
}

// runFleet shows one row for each Cluster.
func (o *options) runFleet(cmd *cobra.Command, format view.Format) error {
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return cli.WrapInput("--selector", err)
	}
	m, namespace, err := management.Connect(o.kube)
	if err != nil {
		return err
	}
	if o.all {
		namespace = ""
	}
	facts, err := m.FleetFacts(cmd.Context(), namespace, selector)
	if err != nil {
		return err
	}
	fleet := status.ComputeFleet(facts, time.Now())
	return view.WriteFleet(cmd.OutOrStdout(), format, cli.NewScreen(cmd), fleet)
}
