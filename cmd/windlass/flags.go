package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/view"
)

// inputError says which flag, argument or field of an object cannot be used, and why.
type inputError struct {
	// item is a flag or argument as the user writes it, such as --group, or an object's field.
	item string
	err  error
}

func (e *inputError) Error() string { return e.item + ": " + e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

func inputErrorf(item, format string, args ...any) error {
	return &inputError{item: item, err: fmt.Errorf(format, args...)}
}

// wrapInput is nil where err is.
func wrapInput(item string, err error) error {
	if err == nil {
		return nil
	}
	return &inputError{item: item, err: err}
}

// reportFlagError reports a flag that cannot be parsed in the format that was asked for. Parsing
// stops at the fault, so the format may stand behind it: it is looked for in the whole command
// line.
func reportFlagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	return reportError(cmd, findFormat(os.Args[1:]), describeFlagError(cmd, err))
}

// describeFlagError names the flag that the parser refuses.
func describeFlagError(cmd *cobra.Command, err error) error {
	see := fmt.Sprintf("; see %s --help", cmd.CommandPath())
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return inputErrorf(specified(unknown), "there is no such flag%s", see)
	}
	if empty, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return inputErrorf(specified(empty), "its value is missing%s", see)
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return inputErrorf("--"+invalid.GetFlag().Name,
			"%q cannot be used: %w%s", invalid.GetValue(), errors.Unwrap(invalid), see)
	}
	return inputErrorf("flags", "%w%s", err, see)
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

// findFormat returns the format that a command line asks for, as far as that can be told without
// knowing its other flags.
func findFormat(args []string) view.Format {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	output := flags.StringP("output", "o", "", "")
	// Help is no error here, nor is a last flag without its value; what was found before it counts.
	_ = flags.Parse(args)
	return view.Format(*output)
}

// oneArg requires exactly one argument, which messages call by name. missing is what the message
// adds where there is none.
func oneArg(name, missing string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return inputErrorf(name, "it is missing%s", missing)
		case 1:
			return nil
		default:
			return inputErrorf(name, "there can be one only, not %q", args)
		}
	}
}

// clusterArg requires exactly one CLUSTER.
var clusterArg = oneArg("CLUSTER", "; name a Cluster")

// reported reports what check refuses in the format that --output asks for.
func reported(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return reportError(cmd, view.Format(cmd.Flags().Lookup("output").Value.String()), err)
		}
		return nil
	}
}

// optionalClusterArg allows one CLUSTER. A second argument is most often meant for a subcommand.
func optionalClusterArg(cmd *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	meant := ""
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		meant = fmt.Sprintf("; did you mean %s %s?", cmd.CommandPath(), strings.Join(similar, ", "))
	}
	return inputErrorf("CLUSTER", "there can be one only, not %q%s", args, meant)
}

// firstOf returns the first argument; empty where there is none.
func firstOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// mustRegister panics when a flag does not exist, which is a slip in this program that every run of
// the command shows.
func mustRegister(err error) {
	if err != nil {
		panic(err)
	}
}

// completeValues completes a flag with its values.
func completeValues(cmd *cobra.Command, flag string, values ...string) {
	complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	mustRegister(cmd.RegisterFlagCompletionFunc(flag, complete))
}

// completeNothing keeps the shell from offering files for flags that take none.
func completeNothing(cmd *cobra.Command, flags ...string) {
	for _, flag := range flags {
		mustRegister(cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions))
	}
}

// completeArg completes the one argument of a command with those names that begin with what was
// typed.
func completeArg(list func(context.Context) []string) cobra.CompletionFunc {
	return func(
		cmd *cobra.Command, args []string, prefix string,
	) ([]cobra.Completion, cobra.ShellCompDirective) {
		var matches []cobra.Completion
		if len(args) == 0 {
			for _, name := range list(cmd.Context()) {
				if strings.HasPrefix(name, prefix) {
					matches = append(matches, name)
				}
			}
		}
		return matches, cobra.ShellCompDirectiveNoFileComp
	}
}

// addFormatFlag adds --output. what is what the format is of.
func addFormatFlag(cmd *cobra.Command, output *string, what string, formats []view.Format) {
	names := namesOf(formats)
	cmd.Flags().StringVarP(output, "output", "o", names[0],
		"`FORMAT` of "+what+": "+strings.Join(names, ", "))
	completeValues(cmd, "output", names...)
}

func namesOf[T ~string](values []T) []string {
	names := make([]string, 0, len(values))
	for _, v := range values {
		names = append(names, string(v))
	}
	return names
}

// addFilesFlag adds -f for manifests.
func addFilesFlag(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVarP(files, "filename", "f", nil,
		"`FILE` or folder with manifests, - for standard input; may be repeated")
	mustRegister(cmd.MarkFlagFilename("filename", "yaml", "yml", "json"))
}

// addKubeFlags adds the flags that choose a management cluster. The command then reports a wrong
// flag in the format that was asked for.
func addKubeFlags(cmd *cobra.Command, kube *genericclioptions.ConfigFlags) {
	kube.AddFlags(cmd.Flags())
	cmd.SetFlagErrorFunc(reportFlagError)
}

// addPrefixFlag adds --prefix.
func addPrefixFlag(flags *pflag.FlagSet, prefix *string) {
	flags.StringVar(prefix, "prefix", v1alpha1.DefaultInPlaceUpgradePrefix, "`PREFIX` of the annotations that ask for upgrades in place, as --in-place-upgrade-prefix of windlass extension or manager")
}

// checkPrefix refuses what windlass extension would not take, because the API server would not take it as the beginning of an annotation's key.
func checkPrefix(prefix string) error {
	if prefix == "" {
		return inputErrorf("--prefix", "it is empty; leave it away for %s", v1alpha1.DefaultInPlaceUpgradePrefix)
	}
	return wrapInput("--prefix", request.CheckPrefix(prefix))
}

// newKubeFlags keeps the usual flags that choose a cluster and who asks. Credentials belong in a kubeconfig, not on a
// command line where other users of the machine can read them.
func newKubeFlags() *genericclioptions.ConfigFlags {
	all := genericclioptions.NewConfigFlags(false)
	return &genericclioptions.ConfigFlags{
		KubeConfig: all.KubeConfig, Context: all.Context, Namespace: all.Namespace, Timeout: all.Timeout,
		Impersonate: all.Impersonate, ImpersonateGroup: all.ImpersonateGroup,
	}
}

// completeCluster completes CLUSTER from manifests, where there are files, or else from the
// management cluster. What cannot be read has no names.
func completeCluster(kube *genericclioptions.ConfigFlags, files *[]string) cobra.CompletionFunc {
	return completeArg(func(ctx context.Context) []string {
		if files == nil || len(*files) == 0 {
			return management.Names[clusterv1.ClusterList](ctx, kube)
		}
		// Completion must not take away what the command itself will read from standard input.
		set, err := manifest.Read(*files, strings.NewReader(""))
		if err != nil {
			return nil
		}
		var names []string
		for _, c := range set.Clusters {
			names = append(names, c.Name)
		}
		return names
	})
}
