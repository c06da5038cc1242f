package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/view"
)

// AddFormatFlag adds --output. what is what the format is of.
func AddFormatFlag(cmd *cobra.Command, output *string, what string, formats []view.Format) {
	names := NamesOf(formats)
	cmd.Flags().StringVarP(output, "output", "o", names[0],
		"`FORMAT` of "+what+": "+strings.Join(names, ", "))
	CompleteValues(cmd, "output", names...)
}

// NamesOf returns values as strings.
func NamesOf[T ~string](values []T) []string {
	names := make([]string, 0, len(values))
	for _, v := range values {
		names = append(names, string(v))
	}
	return names
}

// AddFilesFlag adds -f for manifests.
func AddFilesFlag(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVarP(files, "filename", "f", nil,
		"`FILE` or folder with manifests, - for standard input; may be repeated")
	MustRegister(cmd.MarkFlagFilename("filename", "yaml", "yml", "json"))
}

// AddKubeFlags adds the flags that choose a management cluster. The command then reports a wrong
// flag in the format that was asked for.
func AddKubeFlags(cmd *cobra.Command, kube *management.Flags) {
	kube.AddFlags(cmd.Flags())
	CompleteContext(cmd)
	CompleteFlag(cmd, "namespace", func(ctx context.Context) []string {
		return management.Names[corev1.NamespaceList](ctx, kube)
	})
	CompleteNothing(cmd, "request-timeout", "as", "as-group")
	cmd.SetFlagErrorFunc(reportFlagError)
}

// AddPrefixFlag adds --prefix.
func AddPrefixFlag(cmd *cobra.Command, prefix *string) {
	cmd.Flags().StringVar(prefix, "prefix", v1alpha1.DefaultInPlaceUpgradePrefix, "`PREFIX` of the annotations that ask for upgrades in place, as --in-place-upgrade-prefix of windlass extension or manager")
	CompleteNothing(cmd, "prefix")
}

// CheckPrefix refuses what windlass extension would not take, because the API server would not take it as the beginning of an annotation's key.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return InputErrorf("--prefix", "it is empty. Fix: omit it for %s", v1alpha1.DefaultInPlaceUpgradePrefix)
	}
	return WrapInput("--prefix", request.CheckPrefix(prefix))
}

// NewKubeFlags returns the usual flags that choose a cluster and who asks. Credentials belong in a kubeconfig, not on a
// command line where other users of the machine can read them.
func NewKubeFlags() *management.Flags {
	return &management.Flags{}
}
