package serving

import (
	"fmt"
	"net/http"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/cluster-api/util/flags"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

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

// The API server reviews a caller's token once a minute. This many reviews suffice for scrapers of every
// replica; a caller that invents tokens causes no more.
const (
	reviewsPerSecond = 5
	reviewsAtOnce    = 10
)

// Options returns the options of a manager that serves diagnostics. Over TLS, it serves them with the
// certificate in certDir.
func (d *Diagnostics) Options(certDir string) (metricsserver.Options, error) {
	_, options, err := flags.GetManagerOptions(flags.ManagerOptions{
		TLSMinVersion: "VersionTLS13", DiagnosticsAddress: d.address, InsecureDiagnostics: d.insecure,
	})
	if err != nil {
		return metricsserver.Options{}, fmt.Errorf("reading --diagnostics-address: %w", err)
	}
	// It sets the level of klog, which does not write the log here.
	delete(options.ExtraHandlers, "/debug/flags/v")
	if options.SecureServing {
		options.CertDir, options.CertName, options.KeyName = certDir, hookserver.CertName, hookserver.KeyName
		options.FilterProvider = limitedReviews(options.FilterProvider)
	}
	return *options, nil
}

type filterProvider = func(*rest.Config, *http.Client) (metricsserver.Filter, error)

// limitedReviews returns a provider whose filter asks the API server at a limited rate. Each unknown token
// costs a request of this process' account. Without a limit, requests with invented tokens would
// delay the renewal of the lease, because the API server queues requests per account.
func limitedReviews(provider filterProvider) filterProvider {
	return func(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
		limited := rest.CopyConfig(config)
		limited.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(reviewsPerSecond, reviewsAtOnce)
		return provider(limited, client)
	}
}
