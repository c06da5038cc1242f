package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Run executes the command that the arguments name, and returns the exit code. It prints an error to
// stderr, after the program's name. The first interrupt or SIGTERM ends the command's context.
func Run(ctx context.Context, root *cobra.Command, stderr io.Writer) ExitCode {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		refuseUnknown(c)
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	coded := &ExitError{Code: ExitFailure}
	if errors.As(err, &coded) && coded.Silent {
		return coded.Code
	}
	// Names and messages in an error may be from a cluster or a file that nobody has checked.
	message := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, describeConflict(err.Error()))
	fmt.Fprintf(stderr, "%s: %s\n", root.Name(), message)
	return coded.Code
}

// interruptible returns a context that the first interrupt or SIGTERM ends. The second one ends the
// program, however long the command takes to stop.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// conflict matches cobra's error about flags that exclude each other, which has no type of its own.
var conflict = regexp.MustCompile(`^if any flags in the group \[[^]]*\] are set none of the others can be; ` +
	`\[([^]]*)\] were all set$`)

// describeConflict writes the flags of such a message as a user does. It returns other messages unchanged.
func describeConflict(message string) string {
	found := conflict.FindStringSubmatch(message)
	if found == nil {
		return message
	}
	return "--" + strings.Join(strings.Fields(found[1]), " and --") + " cannot be used together"
}

// refuseUnknown makes commands that only group others refuse arguments. Cobra would print their help
// and return success, so a script would not notice a misspelled command.
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

// suggestionDistance is the number of letters by which a suggested name may differ, as in cobra.
const suggestionDistance = 2

// unknownCommandError returns the error that cobra returns for a root command.
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
