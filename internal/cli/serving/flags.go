package serving

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/windlass-dev/windlass/internal/hookserver"
)

// Flags are those of commands that serve hooks for a management cluster.
type Flags struct {
	ClusterFlags
	BindAddress, CertDir, ClientCAName string
	Port                               int
}

// Add adds the flags. --cert-dir is required.
func (f *Flags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.ClusterFlags.Add(flags)
	flags.StringVar(&f.BindAddress, "bind-address", "", "address to serve hooks on (default: all addresses)")
	flags.IntVar(&f.Port, "port", 9443, "port to serve hooks on")
	flags.StringVar(&f.CertDir, "cert-dir", "", "folder with the serving certificate, "+hookserver.CertName+" and "+hookserver.KeyName+"; read again when it changes")
	flags.StringVar(&f.ClientCAName, "client-ca-name", "", "file in --cert-dir with the CA that must have signed the callers' certificates; read again when it changes (default: callers need none)")
	if err := cmd.MarkFlagRequired("cert-dir"); err != nil {
		panic(err) // The flag is defined above.
	}
}

// Check finds missing or broken certificates before anything is started.
func (f *Flags) Check() error {
	return CheckCertificates("cert-dir", f.CertDir, "client-ca-name", f.ClientCAName)
}

// ClusterFlags choose the management cluster of a command that serves.
type ClusterFlags struct{ kubeconfig, context string }

// Add adds --kubeconfig and --context.
func (f *ClusterFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the management cluster (default: $KUBECONFIG, ~/.kube/config, or the pod's service account)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig to use (default: its current context)")
}

// RESTConfig finds the management cluster by the flags, else as kubectl does, else as a pod.
func (f *ClusterFlags) RESTConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.context}
	restConfig, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the management cluster: %w. Fix: use --kubeconfig and --context", err)
	}
	return restConfig, nil
}

// Unthrottle leaves it to the API server's priority and fairness how fast a server may ask it, as controller-runtime does where it
// makes the configuration. With client-go's default of 5 requests a second, a hundred machines in flight keep each other
// waiting so long that the guard misses its deadline.
func Unthrottle(config *rest.Config) { config.QPS = -1 }

// CheckCertificates finds missing or broken certificates before anything is started. dirFlag and clientCAFlag name the flags
// that certDir and clientCAName come from.
func CheckCertificates(dirFlag, certDir, clientCAFlag, clientCAName string) error {
	certFile, keyFile := filepath.Join(certDir, hookserver.CertName), filepath.Join(certDir, hookserver.KeyName)
	if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		return fmt.Errorf("reading the serving certificate: %w; --%s must hold %s and %s in PEM", err, dirFlag, hookserver.CertName, hookserver.KeyName)
	}
	return CheckClientCA(dirFlag, certDir, clientCAFlag, clientCAName)
}

// CheckClientCA finds a missing or broken CA. An empty name means that there is none.
func CheckClientCA(dirFlag, certDir, clientCAFlag, clientCAName string) error {
	if clientCAName == "" {
		return nil
	}
	clientCA := filepath.Join(certDir, clientCAName)
	content, err := os.ReadFile(clientCA)
	if err != nil {
		return fmt.Errorf("reading the client CA: %w; --%s must name a file in --%s", err, clientCAFlag, dirFlag)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(content) {
		return fmt.Errorf("reading the client CA: %s holds no certificate; it must hold at least one in PEM", clientCA)
	}
	return nil
}
