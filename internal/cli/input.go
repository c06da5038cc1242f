package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// InputError says which flag, argument or field of an object cannot be used, and why.
type InputError struct {
	// item is a flag or argument as the user writes it, such as --group, or an object's field.
	item string
	err  error
}

func (e *InputError) Error() string { return e.item + ": " + e.err.Error() }

// Unwrap returns why the input cannot be used.
func (e *InputError) Unwrap() error { return e.err }

// InputErrorf returns an InputError.
func InputErrorf(item, format string, args ...any) error {
	return &InputError{item: item, err: fmt.Errorf(format, args...)}
}

// WrapInput returns err as an InputError; nil where err is nil.
func WrapInput(item string, err error) error {
	if err == nil {
		return nil
	}
	return &InputError{item: item, err: err}
}

// OneArg requires exactly one argument, which messages call by name. missing is what the message
// adds where there is none.
func OneArg(name, missing string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return InputErrorf(name, "it is missing%s", missing)
		case 1:
			return nil
		default:
			return InputErrorf(name, "there can be one only, not %q", args)
		}
	}
}

// ClusterArg requires exactly one CLUSTER.
var ClusterArg = OneArg("CLUSTER", ". Fix: name a Cluster")

// OptionalClusterArg allows one CLUSTER. A second argument is most often meant for a subcommand.
func OptionalClusterArg(cmd *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	meant := ""
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		meant = fmt.Sprintf("; did you mean %s %s?", cmd.CommandPath(), strings.Join(similar, ", "))
	}
	return InputErrorf("CLUSTER", "there can be one only, not %q%s", args, meant)
}

// FirstOf returns the first argument; empty where there is none.
func FirstOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
