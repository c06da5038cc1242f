package plancmd

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/planinput"
	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// report shows a plan, then the notes: below a table, and beside what programs read.
func report(cmd *cobra.Command, in planinput.Input, r planinput.Request, p plan.Plan) error {
	chain := view.Chain{
		Plan: p, ControlPlane: r.Request.Inventory.ControlPlane, Target: r.Request.Target,
		HideGroups: r.HideGroups, Explained: in.Explain,
	}
	if in.Explain {
		chain.Explanation = plan.Explain(r.Request).Lines
	}
	notes := append(slices.Clip(r.Notes), r.Preview(cmd.Context(), p, &chain)...)
	if r.Heading != "" {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n", r.Heading); err != nil {
			return fmt.Errorf("writing the plan: %w", err)
		}
	}
	if err := view.Write(cmd.OutOrStdout(), in.Format, cli.NewScreen(cmd), chain); err != nil {
		return err
	}
	if in.Format == view.Table {
		return view.WriteNotes(cmd.OutOrStdout(), cli.NewScreen(cmd), notes)
	}
	for _, n := range notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "windlass: note: %s\n", n)
	}
	return nil
}
