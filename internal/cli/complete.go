package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/manifest"
)

// MustRegister panics when a flag does not exist, which is a slip in this program that every run of
// the command shows.
func MustRegister(err error) {
	if err != nil {
		panic(err)
	}
}

// CompleteValues completes a flag with its values.
func CompleteValues(cmd *cobra.Command, flag string, values ...string) {
	complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	MustRegister(cmd.RegisterFlagCompletionFunc(flag, complete))
}

// CompleteNothing keeps the shell from offering files for flags that take none.
func CompleteNothing(cmd *cobra.Command, flags ...string) {
	for _, flag := range flags {
		MustRegister(cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions))
	}
}

// CompleteArg completes the one argument of a command with those names that begin with what was
// typed.
func CompleteArg(list func(context.Context) []string) cobra.CompletionFunc {
	complete := completeNames(list)
	return func(
		cmd *cobra.Command, args []string, prefix string,
	) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, prefix)
	}
}

// CompleteFlag completes a flag with those names that begin with what was typed.
func CompleteFlag(cmd *cobra.Command, flag string, list func(context.Context) []string) {
	MustRegister(cmd.RegisterFlagCompletionFunc(flag, completeNames(list)))
}

func completeNames(list func(context.Context) []string) cobra.CompletionFunc {
	return func(
		cmd *cobra.Command, _ []string, prefix string,
	) ([]cobra.Completion, cobra.ShellCompDirective) {
		var matches []cobra.Completion
		for _, name := range list(cmd.Context()) {
			if strings.HasPrefix(name, prefix) {
				matches = append(matches, name)
			}
		}
		return matches, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteContext completes --context with the contexts of --kubeconfig, or of the kubeconfigs that
// kubectl reads.
func CompleteContext(cmd *cobra.Command) {
	CompleteFlag(cmd, "context", func(context.Context) []string {
		return management.Contexts(cmd.Flag("kubeconfig").Value.String())
	})
}

// CompleteCluster completes CLUSTER with ClusterNames.
func CompleteCluster(kube *management.Flags, files *[]string) cobra.CompletionFunc {
	return CompleteArg(ClusterNames(kube, files))
}

// ClusterNames lists the Clusters of manifests, where there are files, or else of the management
// cluster. What cannot be read has no names.
func ClusterNames(
	kube *management.Flags, files *[]string,
) func(context.Context) []string {
	return func(ctx context.Context) []string {
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
	}
}
