package plancmd

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/planinput"
	"github.com/windlass-dev/windlass/internal/upgradegraph"
	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// report shows a plan, then the notes: below a table, and beside what programs read.
func report(cmd *cobra.Command, in planinput.Input, r planinput.Request, p plan.Plan) error {
	chain := view.Chain{
		Plan: p, ControlPlane: r.Request.Inventory.ControlPlane, Target: r.Request.Target,
		HideGroups: r.HideGroups, Explained: in.Explain, Risks: r.Risks(in, p),
		Accepted: func(id string) bool { return upgradegraph.Accepts(r.KnownRisks, id) },
	}
	if in.Explain {
		chain.Explanation = plan.Explain(r.Request).Lines
	}
	notes := append(slices.Clip(r.Notes), unorderedNotes(chain.ControlPlane, p.ControlPlane)...)
	notes = append(notes, r.Preview(cmd.Context(), p, &chain)...)
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

// unorderedNotes says which steps of the control plane go to a build that is newer only because
// the plan says so.
func unorderedNotes(from version.Version, steps []version.Version) (notes []string) {
	for _, to := range steps {
		if version.Compare(from, to) == version.Unordered {
			notes = append(notes, fmt.Sprintf("the builds of %s and %s are words without an order. "+
				"The plan counts %s as the newer one, because it is listed later or is the target",
				from, to, to))
		}
		from = to
	}
	return notes
}
