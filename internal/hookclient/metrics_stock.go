package hookclient

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// stockMetrics are those of Cluster API's own client of runtime extensions, so that dashboards and alerts made for them go on. As there, a series stays
// for as long as the process runs; there are as many as hosts and hooks.
type stockMetrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newStockMetrics has names, labels, buckets and descriptions that must be Cluster API's: a registry refuses a second description of a name.
func newStockMetrics() *stockMetrics {
	return &stockMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "capi_runtime_sdk_requests_total",
			Help: "Number of HTTP requests, partitioned by status code, host, hook and response status.",
		}, []string{"code", "host", "group", "version", "hook", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "capi_runtime_sdk_request_duration_seconds",
			Help:    "Request duration in seconds, broken down by hook and host.",
			Buckets: []float64{.005, .025, .05, .1, .2, .4, .6, .8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60},
		}, []string{"host", "group", "version", "hook"}),
	}
}

// register adds the metrics to a registry, or goes on with those that are there: Cluster API's client, which its reconcilers link in, has registered its
// own in controller-runtime's registry.
func (m *stockMetrics) register(registry prometheus.Registerer) error {
	var err error
	if m.requests, err = registerOrShare(registry, m.requests); err != nil {
		return err
	}
	m.duration, err = registerOrShare(registry, m.duration)
	return err
}

func registerOrShare[T prometheus.Collector](registry prometheus.Registerer, collector T) (T, error) {
	err := registry.Register(collector)
	if registered, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := registered.ExistingCollector.(T); ok {
			return existing, nil
		}
	}
	if err != nil {
		return collector, fmt.Errorf("registering Cluster API's metrics of hooks: %w", err)
	}
	return collector, nil
}

func (m *stockMetrics) observe(hook runtimecatalog.GroupVersionHook, host string, answer runtimehooksv1.ResponseObject, err error, took time.Duration) {
	m.requests.WithLabelValues(computeCode(answer, err), host, hook.Group, hook.Version, hook.Hook, computeStatus(answer)).Inc()
	m.duration.WithLabelValues(host, hook.Group, hook.Version, hook.Hook).Observe(took.Seconds())
}

// computeCode returns the HTTP status of an answer, or what stands for none.
func computeCode(answer runtimehooksv1.ResponseObject, err error) string {
	if bad, ok := errors.AsType[*BadResponseError](err); ok {
		return strconv.Itoa(bad.StatusCode)
	}
	if answer == nil {
		return "<error>"
	}
	return strconv.Itoa(http.StatusOK)
}

// computeStatus returns the status in an answer. What an extension makes up is left out: it would be a series each.
func computeStatus(answer runtimehooksv1.ResponseObject) string {
	if answer != nil {
		if s := answer.GetStatus(); s == runtimehooksv1.ResponseStatusSuccess || s == runtimehooksv1.ResponseStatusFailure {
			return string(s)
		}
	}
	return "Unknown"
}
