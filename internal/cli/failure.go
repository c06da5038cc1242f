package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// Refusedf returns the error of a command whose input is valid, but asks for what is impossible.
func Refusedf(format string, args ...any) error {
	return &ExitError{Code: ExitRefused, Err: fmt.Errorf(format, args...)}
}

// reportFlagError reports a flag that cannot be parsed in the format that was asked for. Parsing
// stops at the fault, so the format may stand behind it: it is looked for in the whole command
// line.
func reportFlagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	return Report(cmd, FindFormat(os.Args[1:]), DescribeFlagError(cmd, err))
}

// DescribeFlagError names the flag that the parser refuses.
func DescribeFlagError(cmd *cobra.Command, err error) error {
	see := fmt.Sprintf("; see %s --help", cmd.CommandPath())
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return InputErrorf(specified(unknown), "there is no such flag%s", see)
	}
	if empty, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return InputErrorf(specified(empty), "its value is missing%s", see)
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return InputErrorf("--"+invalid.GetFlag().Name,
			"%q cannot be used: %w%s", invalid.GetValue(), errors.Unwrap(invalid), see)
	}
	return InputErrorf("flags", "%w%s", err, see)
}

// specified returns the flag that an error is about, as the user wrote it.
func specified(err interface {
	GetSpecifiedName() string
	GetSpecifiedShortnames() string
}) string {
	if err.GetSpecifiedShortnames() != "" {
		return "-" + err.GetSpecifiedName()
	}
	return "--" + err.GetSpecifiedName()
}

// FindFormat returns the format that a command line asks for, as far as that can be told without
// knowing its other flags.
func FindFormat(args []string) view.Format {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	output := flags.StringP("output", "o", "", "")
	// Help is no error here, nor is a last flag without its value; what was found before it counts.
	_ = flags.Parse(args)
	return view.Format(*output)
}

// Reported reports what check refuses in the format that --output asks for.
func Reported(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return Report(cmd, view.Format(cmd.Flags().Lookup("output").Value.String()), err)
		}
		return nil
	}
}

// Values of error.rule for faults that the planner never sees. They are part of the stable interface.
const (
	ruleInvalidInput     = "InvalidInput"
	ruleServerError      = "ServerError"
	ruleExtensionFailure = "ExtensionFailure"
	// RuleRefused and RuleUnfinished belong to ExitRefused and ExitUnfinished of commands that print lines.
	RuleRefused    = "Refused"
	RuleUnfinished = "Unfinished"
)

// Report says what went wrong, in the format that was asked for, and chooses the exit code. A
// structured format also has the explanation, if there is one. Nil, and what was shown already, is
// returned as it is.
func Report(
	cmd *cobra.Command, format view.Format, cause error, explanation ...plan.ExplanationLine,
) error {
	if shown, ok := errors.AsType[*ExitError](cause); cause == nil || ok && shown.Silent {
		return cause
	}
	err := &ExitError{Code: exitCodeOf(cause), Err: cause}
	if !format.Structured() {
		return err
	}
	if writeErr := view.WriteFailure(cmd.OutOrStdout(), format, FailureOf(err), explanation); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	err.Silent = true
	return err
}

func exitCodeOf(err error) ExitCode {
	var fault *plan.Error
	var refused *manifest.FailureError
	switch {
	case errors.As(err, &fault) && !fault.Rule.BadInput():
		return ExitRefused
	case errors.As(err, &refused):
		return ExitRefused
	default:
		return ExitFailure
	}
}

// FailureOf says for programs what an error is about.
func FailureOf(err error) view.Failure {
	f := view.Failure{Rule: ruleInvalidInput, Message: err.Error()}
	var (
		fault   *plan.Error
		input   *InputError
		file    *manifest.Error
		refused *manifest.FailureError
		server  *management.ReadError
	)
	switch {
	case errors.As(err, &fault):
		f.Rule, f.Item, f.Version = string(fault.Rule), string(fault.Item), fault.Version.String()
	case errors.As(err, &input):
		f.Item = input.item
	case errors.As(err, &file):
		f.Item = file.Origin.String()
		if file.Field != "" {
			f.Item += ": " + file.Field
		}
	case errors.As(err, &refused):
		f.Rule, f.Item = ruleExtensionFailure, refused.Origin.String()
	case errors.As(err, &server):
		f.Rule, f.Item = ruleServerError, server.Item
	}
	return f
}
