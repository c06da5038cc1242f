package hookclient_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/hookclient"
)

// TestStockMetrics counts what Cluster API's own client counts, under its names.
func TestStockMetrics(t *testing.T) {
	t.Parallel()
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:] {
		case "pass":
			_, _ = io.WriteString(w, success)
		case "refuse":
			_, _ = io.WriteString(w, `{"status":"Failure"}`)
		case "odd":
			_, _ = io.WriteString(w, `{"status":"Perhaps"}`)
		default:
			http.NotFound(w, r)
		}
	})
	host := strings.TrimPrefix(e.URL, "https://")
	registry := prometheus.NewRegistry()
	c := newClient(t, func(o *hookclient.Options) { o.Metrics = registry })
	gone := extensionConfig("gone", "BeforeClusterUpgrade/a")
	gone.Spec.ClientConfig.URL = "https://127.0.0.1:1"
	warm(t, c, e.config("x", "BeforeClusterUpgrade/pass", "BeforeClusterUpgrade/refuse", "BeforeClusterUpgrade/odd", "BeforeClusterUpgrade/missing/Ignore"), gone)
	for _, handler := range []string{"pass.x", "pass.x", "refuse.x", "odd.x", "missing.x", "a.gone"} {
		_, _ = call(t.Context(), t, c, runtimehooksv1.BeforeClusterUpgrade, handler)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = call(cancelled, t, c, runtimehooksv1.BeforeClusterUpgrade, "pass.x")
	const hook = " hooks.runtime.cluster.x-k8s.io v1alpha1 BeforeClusterUpgrade"
	want := map[string]float64{
		"200 " + host + hook + " Success": 2, "200 " + host + hook + " Failure": 1, "200 " + host + hook + " Unknown": 1, "404 " + host + hook + " Unknown": 1,
		"<error> " + host + hook + " Unknown": 1, "<error> 127.0.0.1:1" + hook + " Unknown": 1, host + hook: 6, "127.0.0.1:1" + hook: 1,
	}
	if diff := cmp.Diff(want, gatherStock(t, registry)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// gatherStock returns counts of both metrics, by the values of the labels.
func gatherStock(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{
		"capi_runtime_sdk_requests_total":           {"code", "host", "group", "version", "hook", "status"},
		"capi_runtime_sdk_request_duration_seconds": {"host", "group", "version", "hook"},
	}
	out := map[string]float64{}
	for _, family := range families {
		names, ours := labels[family.GetName()]
		if !ours {
			continue
		}
		for _, metric := range family.GetMetric() {
			if len(metric.GetLabel()) != len(names) {
				t.Errorf("%s has the labels %v", family.GetName(), metric.GetLabel())
			}
			values := map[string]string{}
			for _, label := range metric.GetLabel() {
				values[label.GetName()] = label.GetValue()
			}
			ordered := make([]string, 0, len(names))
			for _, name := range names {
				ordered = append(ordered, values[name])
			}
			out[strings.Join(ordered, " ")] = metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return out
}
