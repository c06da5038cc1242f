// Command windlass plans and runs Kubernetes upgrades across many minor versions on Cluster API.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	// The image has no files with CAs. Without system CAs, certificates are verified with Mozilla's list in this package.
	_ "golang.org/x/crypto/x509roots/fallback"
)

// Exit codes of every windlass command. Scripts rely on them.
const (
	exitOK = 0
	// exitFailure is a usage error, bad input, or an operation that failed.
	exitFailure = 1
	// exitNoPlan means that the input was understood and that no legal upgrade plan exists for it.
	exitNoPlan = 3
	// exitUnfinished means that what was begun goes on, and was not followed to its end.
	exitUnfinished = 4
)

// buildVersion is set by the linker; see the Makefile.
var buildVersion = "dev"

// exitError carries the exit code of a failed command.
type exitError struct {
	code int
	// silent is set when the command has already printed what went wrong in the format the user asked for.
	silent bool
	err    error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := interruptible(context.Background())
	defer stop()
	err := newRootCommand().ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitFailure
	if coded, ok := errors.AsType[*exitError](err); ok {
		code = coded.code
		if coded.silent {
			return code
		}
	}
	fmt.Fprintln(os.Stderr, "windlass: "+describeConflict(err.Error()))
	return code
}

// conflict is what cobra says of flags that exclude each other, which is no type of its own: the flags that were given.
var conflict = regexp.MustCompile(`^if any flags in the group \[[^]]*\] are set none of the others can be; \[([^]]*)\] were all set$`)

// describeConflict says such a message in words that name the flags as they are written; others it leaves as they are.
func describeConflict(message string) string {
	found := conflict.FindStringSubmatch(message)
	if found == nil {
		return message
	}
	return "--" + strings.Join(strings.Fields(found[1]), " and --") + " cannot be given together: leave one away"
}

// interruptible returns a context that the first Ctrl-C or SIGTERM ends. The second one ends the program, however long the command
// takes to stop.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "windlass",
		Short: "Upgrade Cluster API clusters across many Kubernetes minors with one change",
		Long: `Windlass upgrades Kubernetes clusters managed by Cluster API across many minor versions
with one change of cluster.spec.topology.version.

It plans the shortest legal chain, shows it and says why before anything happens.`,
		Version:       buildVersion,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newApproveCommand())
	root.AddCommand(newDemoCommand())
	root.AddCommand(newDevCommand())
	root.AddCommand(newDoctorCommand())
	root.AddCommand(newExtensionCommand())
	root.AddCommand(newLogsCommand(systemClock()))
	root.AddCommand(newManagerCommand())
	root.AddCommand(newPlanCommand())
	root.AddCommand(newSimulateCommand())
	root.AddCommand(newStatusCommand())
	root.AddCommand(newUpdaterCommand())
	root.AddCommand(newUpgradeCommand(systemClock()))
	root.AddCommand(newVerifyCommand())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		refuseUnknown(c)
	}
	return root
}

// refuseUnknown makes commands that only group others refuse arguments: cobra would show their help, and count that as a
// success, so that a script does not notice a slip in the name of a command.
func refuseUnknown(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		refuseUnknown(c)
	}
	if !cmd.HasSubCommands() || cmd.Runnable() {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommandError(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// suggestionDistance is how many letters a name may differ from one that is suggested; cobra's own default for a root command.
const suggestionDistance = 2

// unknownCommandError has the words that cobra has for a root command.
func unknownCommandError(group *cobra.Command, name string) error {
	if group.SuggestionsMinimumDistance <= 0 {
		group.SuggestionsMinimumDistance = suggestionDistance
	}
	text := fmt.Sprintf("unknown command %q for %q", name, group.CommandPath())
	if near := group.SuggestionsFor(name); len(near) > 0 {
		text += "\n\nDid you mean this?\n\t" + strings.Join(near, "\n\t") + "\n"
	}
	return errors.New(text)
}
