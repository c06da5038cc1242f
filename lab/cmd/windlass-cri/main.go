// Command windlass-cri is a container runtime for test hosts. Its containers are plain processes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/lab/internal/cri"
)

// buildVersion is set by the linker; see the Makefile.
var buildVersion = "dev"

func main() {
	if status, ok := cri.RunChild(os.Args); ok {
		os.Exit(status)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "windlass-cri:", err)
		os.Exit(1) //nolint:gocritic // Nothing is left to stop.
	}
}

func newCommand() *cobra.Command {
	options := cri.Options{Version: buildVersion, Log: os.Stderr}
	command := &cobra.Command{
		Use:   "windlass-cri",
		Short: "Run containers of a test host as plain processes",
		Long: `Serve the Container Runtime Interface (CRI) of a test host. Containers are plain processes in the host's
root and network, with mount and PID namespaces of their own. They outlive this program: when it starts
again it finds them. As a systemd unit it needs KillMode=process.`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true, Version: buildVersion,
		RunE: func(command *cobra.Command, _ []string) error { return cri.Serve(command.Context(), options) },
	}
	flags := command.Flags()
	flags.StringVar(&options.Socket, "listen", "/run/containerd/containerd.sock", "unix socket to serve at")
	flags.StringVar(&options.Images, "images", "/srv/windlass-images", "folder of images, as REGISTRY/REPOSITORY/TAG/")
	flags.StringVar(&options.State, "state", "/run/windlass-cri", "folder of sandboxes and containers, lost with the power")
	flags.StringVar(&options.Store, "store", "/var/lib/windlass-cri", "folder that records the pulled images")
	flags.StringVar(&options.IP, "ip", "", "address of all pods (default: the host's first IPv4 address)")
	return command
}
