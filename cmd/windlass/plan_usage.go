package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windlass-dev/windlass/internal/view"
)

// reportFlagError reports a flag that cannot be parsed in the format that was asked for. Parsing stops at the fault, so the
// format may stand behind it: it is looked for in the whole command line.
func reportFlagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	return reportFailure(cmd, planInput{format: findFormat(os.Args[1:])}, planRequest{}, describeFlagError(cmd, err))
}

// describeFlagError names the flag that the parser refuses.
func describeFlagError(cmd *cobra.Command, err error) error {
	see := fmt.Sprintf("; see %s --help", cmd.CommandPath())
	dashes := func(name, shorthands string) string {
		if shorthands != "" {
			return "-" + name
		}
		return "--" + name
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return &flagError{flag: dashes(unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames()), problem: "there is no such flag" + see, err: err}
	}
	if empty, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return &flagError{flag: dashes(empty.GetSpecifiedName(), empty.GetSpecifiedShortnames()), problem: "its value is missing" + see, err: err}
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return &flagError{flag: "--" + invalid.GetFlag().Name, problem: fmt.Sprintf("%q cannot be used: %v%s", invalid.GetValue(), errors.Unwrap(invalid), see), err: err}
	}
	return &flagError{flag: "flags", problem: err.Error() + see, err: err}
}

// findFormat returns the format that a command line asks for, as far as that can be told without knowing its other flags.
func findFormat(args []string) view.Format {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	output := flags.StringP("output", "o", "", "")
	// Help is no error here, nor is a last flag without its value; what was found before it counts.
	_ = flags.Parse(args)
	format, err := view.ParseFormat(*output)
	if err != nil {
		return view.Table
	}
	return format
}

// planArgs allows one CLUSTER. A second argument is most often meant for a subcommand.
func planArgs(o *planOptions) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= 1 {
			return nil
		}
		problem := fmt.Sprintf("there can be one only, not %q", args)
		if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
			problem += fmt.Sprintf("; did you mean %s %s?", cmd.CommandPath(), strings.Join(similar, ", "))
		}
		return reportArgsError(cmd, o, &flagError{flag: "CLUSTER", problem: problem})
	}
}

// planCheckArgs asks for exactly one FILE.
func planCheckArgs(o *planOptions) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return reportArgsError(cmd, o, &flagError{flag: "FILE", problem: "it is missing; name the response's file, or - for standard input"})
		case 1:
			return nil
		default:
			return reportArgsError(cmd, o, &flagError{flag: "FILE", problem: fmt.Sprintf("there can be one only, not %q", args)})
		}
	}
}

func reportArgsError(cmd *cobra.Command, o *planOptions, err error) error {
	format, formatErr := view.ParseFormat(o.output)
	if formatErr != nil {
		format = view.Table
	}
	return reportFailure(cmd, planInput{format: format}, planRequest{}, err)
}
