//go:build !linux

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

// addHostCommand adds nothing: a host needs Linux.
func addHostCommand(*cobra.Command) {}

// checkHosts reports that this machine cannot run hosts.
func checkHosts(context.Context) error { return errors.New("real clusters need Linux") }
