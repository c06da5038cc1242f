package updatercmd

import (
	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/linuxhost"
)

// New returns windlass updater.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "updater",
		Short: "Verify an updater, or upgrade one host",
		Long: `Verify an updater, or upgrade one Linux host by the steps of one.

An updater changes a running machine instead of replacing it. It serves Cluster API's hooks CanUpdateMachine,
CanUpdateMachineSet and UpdateMachine over HTTPS. See docs/how-to/write-an-updater.md.
The updaters for Linux hosts come with Windlass; kubeadm, rke2 and k3s carry out their steps on one host, without Cluster API.`,
		Args: cobra.NoArgs,
	}
	tools := systemRunTools()
	cmd.AddCommand(newHost(linuxhost.Kubeadm, "kubeadm", tools))
	cmd.AddCommand(newHost(linuxhost.RKE2, "RKE2", tools))
	cmd.AddCommand(newHost(linuxhost.K3s, "K3s", tools))
	cmd.AddCommand(newDigests())
	cmd.AddCommand(newVerify())
	return cmd
}
