package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

const logPollPeriod = 200 * time.Millisecond

func newStatusCommand(opts *labOptions) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the cluster's processes",
		Long:  `Show the cluster's processes. The exit code is 0 when the cluster is up and healthy, and 1 otherwise.`,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return fmt.Errorf("-o %s is not an output format: use table or json", output)
			}
			if err := opts.complete(); err != nil {
				return err
			}
			plane, err := devplane.Connect(cmd.Context(), opts.stateDir)
			if err != nil {
				return err
			}
			status, err := plane.Status(cmd.Context())
			if err != nil {
				return err
			}
			if err := printStatus(cmd.OutOrStdout(), output, status, labCommand(cmd), time.Now()); err != nil {
				return err
			}
			if status.Phase != devplane.PhaseRunning {
				return &cli.ExitError{Code: cli.ExitFailure, Silent: true, Err: errors.New(status.Message)}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "output format: table or json")
	return cmd
}

// printStatus ends with what is wrong, and with what fixes it where that is known. dev is how dev commands are called.
func printStatus(out io.Writer, format string, status devplane.Status, dev string, now time.Time) error {
	if format == "json" {
		return cli.WriteJSON(out, status)
	}
	network := "private"
	if !status.Isolated {
		network = "this machine's"
	}
	fmt.Fprintf(out, "Phase:       %s\nServer:      %s\nKubeconfig:  %s\nState:       %s\nNetwork:     %s\n\n",
		status.Phase, status.Server, status.Kubeconfig, status.StateDir, network)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NAME\tSTATE\tPID\tSTARTS\tMEMORY\tCPU\tAGE\tLAST EXIT")
	fmt.Fprintf(table, "supervisor\t\t%d\t1\t%s\t\t%s\t\n", status.PID, formatBytes(status.ResidentBytes), formatAge(now.Sub(status.StartedAt)))
	for _, child := range status.Children {
		pid, cpu, age, exit := "", "", "", ""
		if child.PID != 0 {
			pid, cpu, age = fmt.Sprint(child.PID), fmt.Sprintf("%.1f s", child.CPU.Seconds()), formatAge(now.Sub(child.StartedAt))
		}
		if child.LastExit != nil {
			exit = fmt.Sprintf("%s (%s ago)", child.LastExit, formatAge(now.Sub(child.LastExit.At)))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", child.Name, child.State, pid, child.Starts, formatBytes(child.ResidentBytes), cpu, age, exit)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if status.Phase != devplane.PhaseRunning {
		fmt.Fprintf(out, "\n%s\n", status.Message)
	}
	if remedy := engineRemedy(status, dev); remedy != "" {
		fmt.Fprintf(out, "\n%s\n", remedy)
	}
	return nil
}

func formatBytes(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

func formatAge(d time.Duration) string { return d.Truncate(time.Second).String() }

func newLogsCommand(opts *labOptions) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: `Show the log of one of the cluster's processes, by its name in "status"`,
		Args:  cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			if opts.complete() != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return devplane.LogNames(opts.stateDir), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.complete(); err != nil {
				return err
			}
			path, err := devplane.LogFile(opts.stateDir, args[0])
			if err != nil {
				return err
			}
			return copyLog(cmd.Context(), cmd.OutOrStdout(), path, follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for further lines until interrupted")
	return cmd
}

func copyLog(ctx context.Context, out io.Writer, path string, follow bool) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer func() { _ = file.Close() }() // only read from
	for {
		if _, err := io.Copy(out, file); err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(logPollPeriod):
		}
	}
}
