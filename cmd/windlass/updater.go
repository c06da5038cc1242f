package main

import "github.com/spf13/cobra"

func newUpdaterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "updater",
		Short: "Serve an updater, or verify one",
		Long: `Serve an updater, or verify one.

An updater changes machines where they run, in the place of replacing them. It speaks Cluster API's hooks
CanUpdateMachine, CanUpdateMachineSet and UpdateMachine over HTTPS. docs/writing-an-updater.md says how to write one.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newUpdaterServeCommand())
	cmd.AddCommand(newUpdaterVerifyCommand())
	return cmd
}
