package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// Values of error.rule for faults that the planner never sees. They are part of the stable interface.
const (
	ruleInvalidInput     = "InvalidInput"
	ruleServerError      = "ServerError"
	ruleExtensionFailure = "ExtensionFailure"
)

// reportPlan shows a plan, then the notes: below a table, and beside what programs read.
func reportPlan(cmd *cobra.Command, in planInput, r planRequest, p plan.Plan) error {
	chain := view.Chain{
		Plan: p, ControlPlane: r.request.Inventory.ControlPlane, Target: r.request.Target,
		HideGroups: r.hideGroups, Explained: in.explain,
	}
	if in.explain {
		chain.Explanation = plan.Explain(r.request).Lines
	}
	notes := append(slices.Clip(r.notes), r.preview(cmd.Context(), p, &chain)...)
	if r.heading != "" {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n", r.heading); err != nil {
			return fmt.Errorf("writing the plan: %w", err)
		}
	}
	if err := view.Write(cmd.OutOrStdout(), in.format, chain); err != nil {
		return err
	}
	if in.format == view.Table {
		return view.WriteNotes(cmd.OutOrStdout(), notes)
	}
	for _, n := range notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "windlass: note: %s\n", n)
	}
	return nil
}

// reportError says what went wrong, in the format that was asked for, and chooses the exit code. A
// structured format also has the explanation, if there is one.
func reportError(
	cmd *cobra.Command, format view.Format, cause error, explanation ...plan.ExplanationLine,
) error {
	err := &cli.ExitError{Code: exitCodeOf(cause), Err: cause}
	if !format.Structured() {
		return err
	}
	if writeErr := view.WriteFailure(cmd.OutOrStdout(), format, failureOf(err), explanation); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	err.Silent = true
	return err
}

func exitCodeOf(err error) cli.ExitCode {
	var fault *plan.Error
	var refused *manifest.FailureError
	switch {
	case errors.As(err, &fault) && !fault.Rule.BadInput():
		return cli.ExitRefused
	case errors.As(err, &refused):
		return cli.ExitRefused
	default:
		return cli.ExitFailure
	}
}

// failureOf says for programs what an error is about.
func failureOf(err error) view.Failure {
	f := view.Failure{Rule: ruleInvalidInput, Message: err.Error()}
	var (
		fault   *plan.Error
		input   *inputError
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
