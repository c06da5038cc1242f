// Command windlass-lab runs a management cluster on this machine, and upgrades clusters in it.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/cli"
)

// buildVersion is set by the linker; see the Makefile.
var buildVersion = "dev"

func main() { os.Exit(int(cli.Run(context.Background(), newRootCommand(), os.Stderr))) }

func newRootCommand() *cobra.Command {
	opts := &labOptions{}
	root := &cobra.Command{
		Use:   "windlass-lab",
		Short: "Run a real management cluster on this machine",
		Long: `Run a management cluster on this machine, without containers: kube-apiserver with etcd, stock Cluster API, and
in-memory infrastructure, whose machines are simulated. The first "up" builds the parts from Go modules, which takes
minutes; after that a cluster is up in seconds.

With --real, "up", "demo" and "rehearse" run real clusters on Linux hosts of this machine. This needs root and Linux.

On Linux the cluster runs in a network namespace of its own; one port on 127.0.0.1 leads to its API server. Where
namespaces are not permitted, it uses the network of this machine and lists the ports that it opens.

` + cli.ExitCodes(),
		Example: `  windlass-lab demo
  windlass-lab up
  windlass-lab updater kubelet
  windlass-lab kubectl -- get clusters -A
  windlass-lab down`,
		Version: buildVersion,
	}
	opts.addFlags(root.PersistentFlags())
	root.AddCommand(
		newUpCommand(opts), newDownCommand(opts), newDemoCommand(opts), newRehearseCommand(opts), newStatusCommand(opts), newLogsCommand(opts),
		newEngineCommand(opts), newUpdaterCommand(opts), newK8sdCommand(opts), newKubectlCommand(opts), newBuildCommand(opts), newSuperviseCommand(),
	)
	addHostCommand(root)
	return root
}
