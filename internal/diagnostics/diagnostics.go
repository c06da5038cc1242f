package diagnostics

import (
	"crypto/tls"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/cluster-api/util/flags"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// The API server reviews a caller's token once a minute. This many reviews suffice for scrapers of
// every replica; a caller that invents tokens causes no more.
const (
	reviewsPerSecond = 5
	reviewsAtOnce    = 10
)

// Options returns the options that Cluster API's managers have for these flags: of TLS, which webhooks
// share, and of the server. The server's reviews of callers have a limit of their own.
func Options(o flags.ManagerOptions) ([]func(*tls.Config), metricsserver.Options, error) {
	forTLS, options, err := flags.GetManagerOptions(o)
	if err != nil {
		return nil, metricsserver.Options{}, err
	}
	if options.FilterProvider != nil {
		options.FilterProvider = limitedReviews(options.FilterProvider)
	}
	return forTLS, *options, nil
}

type filterProvider = func(*rest.Config, *http.Client) (metricsserver.Filter, error)

// limitedReviews returns a provider whose filter asks the API server at a limited rate. Each unknown
// token costs a request of this process' account. Without a limit, requests with invented tokens would
// delay the renewal of the lease, because the API server queues requests per account.
func limitedReviews(provider filterProvider) filterProvider {
	return func(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
		limited := rest.CopyConfig(config)
		limited.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(reviewsPerSecond, reviewsAtOnce)
		return provider(limited, client)
	}
}
