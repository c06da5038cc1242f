package cli

import "github.com/spf13/cobra"

// AcceptFlag is --accept of all commands that look for settings which a version lacks.
type AcceptFlag struct {
	// Names are those of findings; see settings.Finding.ID and settings.Requirement.ID.
	Names []string
}

// Add adds --accept to a command. examples are names of what the command finds.
func (f *AcceptFlag) Add(cmd *cobra.Command, examples string) {
	cmd.Flags().StringSliceVar(&f.Names, "accept", nil,
		"`NAMES` of findings that do not count, as their messages give them: "+examples+
			"; may be repeated")
	CompleteNothing(cmd, "accept")
}
