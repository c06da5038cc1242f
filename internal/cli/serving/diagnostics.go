package serving

import (
	"fmt"

	"github.com/spf13/pflag"
	"sigs.k8s.io/cluster-api/util/flags"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/windlass-dev/windlass/internal/diagnostics"
	"github.com/windlass-dev/windlass/internal/hookserver"
)

// Diagnostics are the flags about metrics and profiles, by name and default those of Cluster API's managers.
type Diagnostics struct {
	address  string
	insecure bool
}

// Add adds the flags.
func (d *Diagnostics) Add(fs *pflag.FlagSet) {
	fs.StringVar(&d.address, "diagnostics-address", ":8443", `address of /metrics and /debug/pprof/, served over TLS with the certificate in --cert-dir to callers that the management cluster authenticates and authorizes; "0" for none`)
	fs.BoolVar(&d.insecure, "insecure-diagnostics", false, "serve /metrics over plain HTTP to every caller, and no profiles; use it with an address of loopback only")
}

// Options returns the options of a manager that serves diagnostics. Over TLS, it serves them with the
// certificate in certDir.
func (d *Diagnostics) Options(certDir string) (metricsserver.Options, error) {
	_, options, err := diagnostics.Options(flags.ManagerOptions{
		TLSMinVersion: "VersionTLS13", DiagnosticsAddress: d.address, InsecureDiagnostics: d.insecure,
	})
	if err != nil {
		return metricsserver.Options{}, fmt.Errorf("reading --diagnostics-address: %w", err)
	}
	// It sets the level of klog, which does not write the log here.
	delete(options.ExtraHandlers, "/debug/flags/v")
	if options.SecureServing {
		options.CertDir, options.CertName, options.KeyName = certDir, hookserver.CertName, hookserver.KeyName
	}
	return options, nil
}
