package management

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
)

// Flags choose a management cluster, and who asks it. They have the names and the meaning of kubectl's.
//
// Package genericclioptions of k8s.io/cli-runtime has the same, but links kustomize and with it package
// plugin, for which Go's linker keeps all methods and exports all symbols of a program.
type Flags struct {
	// KubeConfig is the path of a kubeconfig; empty means those that kubectl reads.
	KubeConfig string
	// Context is the name of a context in it; empty means the current one.
	Context string
	// Namespace is where objects are looked for; empty means that of the context.
	Namespace string
	// Timeout limits each request, as a duration with a unit; "0" means no limit.
	Timeout string
	// Impersonate and ImpersonateGroup are in whose name requests are made; empty means the context's user.
	Impersonate      string
	ImpersonateGroup []string
}

// AddFlags adds all flags.
func (f *Flags) AddFlags(flags *pflag.FlagSet) {
	f.AddContextFlags(flags)
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "namespace to look in (default: that of the context)")
	flags.StringVar(&f.Timeout, "request-timeout", "0",
		"how long one request to the API server may take, such as 10s or 2m; 0 means without a limit")
	flags.StringVar(&f.Impersonate, "as", "", "user, or service account of a namespace, in whose name requests are made")
	flags.StringArrayVar(&f.ImpersonateGroup, "as-group", nil,
		"group in whose name requests are made; may be repeated")
}

// AddContextFlags adds the flags that choose a cluster and no more.
func (f *Flags) AddContextFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.KubeConfig, "kubeconfig", "", "kubeconfig of the management cluster (default: $KUBECONFIG, ~/.kube/config)")
	flags.StringVar(&f.Context, "context", "", "context of the kubeconfig to use (default: its current one)")
}

// explain adds to the error of a kubeconfig what a person can do, unless it tells that.
func (f *Flags) explain(err error) error {
	listed := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	switch {
	case errors.Is(err, ErrNoCluster) && f.KubeConfig == "" && listed != "" && !anyExists(listed):
		return fmt.Errorf("no file of KUBECONFIG exists (%s), so that %w", listed, err)
	case strings.Contains(err.Error(), ". Fix: "):
		return err
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w. Fix: name a file that exists with --kubeconfig", err)
	case clientcmd.IsContextNotFound(err):
		return fmt.Errorf("%w. Fix: choose one of `kubectl config get-contexts` with --context", err)
	}
	return fmt.Errorf("%w. Fix: correct this file, or choose another with --kubeconfig or KUBECONFIG",
		err)
}

// anyExists reports whether a file of a list of paths exists.
func anyExists(paths string) bool {
	return slices.ContainsFunc(filepath.SplitList(paths), func(path string) bool {
		_, err := os.Stat(path)
		return !errors.Is(err, os.ErrNotExist)
	})
}

// loader reads what the flags choose. It reads files only once it is asked for what they hold.
func (f *Flags) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.KubeConfig
	rules.DefaultClientConfig = &clientcmd.DefaultClientConfig
	overrides := &clientcmd.ConfigOverrides{
		ClusterDefaults: clientcmd.ClusterDefaults, CurrentContext: f.Context, Timeout: f.Timeout,
	}
	overrides.Context.Namespace = f.Namespace
	overrides.AuthInfo.Impersonate, overrides.AuthInfo.ImpersonateGroups = f.Impersonate, f.ImpersonateGroup
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
}
