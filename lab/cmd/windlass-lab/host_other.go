//go:build !linux

package main

import "github.com/spf13/cobra"

// addHostCommand adds nothing: a host needs Linux.
func addHostCommand(*cobra.Command) {}
