// Command windlass plans and runs Kubernetes upgrades across many minor versions on Cluster API.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	// The image has no files with CAs. Without system CAs, certificates are verified with Mozilla's list in this package.
	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/approvecmd"
	"github.com/windlass-dev/windlass/internal/cli/checkcmd"
	"github.com/windlass-dev/windlass/internal/cli/doctorcmd"
	"github.com/windlass-dev/windlass/internal/cli/extensioncmd"
	"github.com/windlass-dev/windlass/internal/cli/interventioncmd"
	"github.com/windlass-dev/windlass/internal/cli/logscmd"
	"github.com/windlass-dev/windlass/internal/cli/managercmd"
	"github.com/windlass-dev/windlass/internal/cli/plancmd"
	"github.com/windlass-dev/windlass/internal/cli/preflightcmd"
	"github.com/windlass-dev/windlass/internal/cli/reportcmd"
	"github.com/windlass-dev/windlass/internal/cli/simulatecmd"
	"github.com/windlass-dev/windlass/internal/cli/statuscmd"
	"github.com/windlass-dev/windlass/internal/cli/uninstallcmd"
	"github.com/windlass-dev/windlass/internal/cli/updatercmd"
	"github.com/windlass-dev/windlass/internal/cli/upgradecmd"
	"github.com/windlass-dev/windlass/internal/cli/verifycmd"
)

// buildVersion is set by the linker; see the Makefile.
var buildVersion = "dev"

func main() {
	root := newRootCommand()
	cli.NameAsPlugin(root, os.Args[0], os.Args[1:], "extension", "manager")
	os.Exit(int(cli.Run(context.Background(), root, root.ErrOrStderr())))
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "windlass",
		Short: "Upgrade Cluster API clusters across many Kubernetes minors with one change",
		Long: `Windlass upgrades Kubernetes clusters managed by Cluster API across many minor versions
with one change of cluster.spec.topology.version.

It plans the shortest legal chain, shows it and says why before anything happens.

Tables are as wide as the terminal, or as the variable COLUMNS if it is exported. In files and
pipes each row is one line.

` + cli.ExitCodes(),
		Version: buildVersion,
	}
	cli.AddColorFlag(root)
	root.AddCommand(
		approvecmd.New(), checkcmd.New(), doctorcmd.New(), extensioncmd.New(), logscmd.New(cli.SystemClock()), managercmd.New(buildVersion), plancmd.New(), preflightcmd.New(),
		reportcmd.New(), simulatecmd.New(), statuscmd.New(), uninstallcmd.New(), updatercmd.New(), upgradecmd.New(cli.SystemClock()), verifycmd.New(),
	)
	root.AddCommand(interventioncmd.New()...)
	return root
}
