package hookclient

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// What the label result says.
const (
	resultSuccess     = "success"
	resultBlocked     = "blocked"
	resultFailure     = "failure"
	resultIgnored     = "ignored"
	resultUnreachable = "unreachable"
	resultBadResponse = "bad_response"
	resultOther       = "other"
)

// callMetrics count the requests to extensions. Labels are hooks and registered extensions, so that there are few series; those of an
// ExtensionConfig go when it is unregistered.
type callMetrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	stock    *stockMetrics
}

func newCallMetrics(registry prometheus.Registerer) (*callMetrics, error) {
	labels := []string{"hook", "extension", "extension_config"}
	m := &callMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "windlass_hook_requests_total",
			Help: "Requests to runtime extensions by hook, extension and result: success, blocked (asks to be called again), failure (the extension's own), " +
				"unreachable, bad_response, ignored (not answered, with the failure policy Ignore) or other (cancelled by the caller, among others).",
		}, append(slices.Clip(labels), "result")),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "windlass_hook_request_duration_seconds",
			Help:    "How long requests to runtime extensions took, by hook and extension.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30},
		}, labels),
		stock: newStockMetrics(),
	}
	if registry == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics of hooks: %w", err)
		}
	}
	return m, m.stock.register(registry)
}

func (m *callMetrics) observe(call Call, result string, took time.Duration) {
	m.requests.WithLabelValues(call.Hook, call.Extension(), call.ExtensionConfig, result).Inc()
	m.duration.WithLabelValues(call.Hook, call.Extension(), call.ExtensionConfig).Observe(took.Seconds())
}

func (m *callMetrics) forget(extensionConfig string) {
	m.requests.DeletePartialMatch(prometheus.Labels{"extension_config": extensionConfig})
	m.duration.DeletePartialMatch(prometheus.Labels{"extension_config": extensionConfig})
}

// computeResult says how a call ended.
func computeResult(response any, ignored bool, err error) string {
	if ignored {
		return resultIgnored
	}
	if err == nil {
		if retry, ok := response.(runtimehooksv1.RetryResponseObject); ok && retry.GetRetryAfterSeconds() != 0 {
			return resultBlocked
		}
		return resultSuccess
	}
	if _, ok := errors.AsType[*RefusedError](err); ok {
		return resultFailure
	}
	if _, ok := errors.AsType[*UnreachableError](err); ok {
		return resultUnreachable
	}
	if _, ok := errors.AsType[*BadResponseError](err); ok {
		return resultBadResponse
	}
	return resultOther
}
