package workload

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/core/gate"
	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	// deprecatedMetric is 1 for every deprecated API that an API server has seen a request for since it started, and is not there
	// for others (KEP-1693).
	deprecatedMetric = "apiserver_requested_deprecated_apis"
	// anyMetric begins the metrics of all API servers. Whoever answers without one is no API server, and does not know what is
	// in use.
	anyMetric = "apiserver_"
	// maxMetricsBytes bounds what is read of an answer; large API servers answer with some ten megabytes.
	maxMetricsBytes = 128 << 20
	// maxMetricLine bounds a line, and maxDeprecatedBytes what is kept of all.
	maxMetricLine, maxDeprecatedBytes = 1 << 20, 1 << 20
)

// DeprecatedAPIs returns the APIs that a cluster's API server has seen requests for since it started, and that a later minor removes.
// Of several API servers it is the one that answers: what only others were asked for is not seen.
func (f *Facts) DeprecatedAPIs(ctx context.Context, cluster types.NamespacedName) ([]gate.API, error) {
	remote, err := f.clients.Client(ctx, cluster)
	if err != nil {
		return nil, &unreachableError{cluster: cluster, reason: err.Error()}
	}
	lines, err := readMetrics(ctx, remote)
	if _, ok := errors.AsType[*metricsError](err); ok {
		return nil, fmt.Errorf("the API server of Cluster %s: %w", cluster, err)
	}
	if err != nil {
		return nil, f.failed(ctx, cluster, remote, "metrics", err)
	}
	apis, err := parseDeprecated(lines)
	if err != nil {
		return nil, fmt.Errorf("the metrics of Cluster %s: %w", cluster, err)
	}
	return apis, nil
}

// metricsError is the error of an answer that holds no metrics of an API server. The connection is all right.
type metricsError struct{ problem string }

func (e *metricsError) Error() string { return e.problem }

// readMetrics returns the lines of the one metric.
func readMetrics(ctx context.Context, remote *connection) ([]byte, error) {
	path, err := url.JoinPath(remote.host, "metrics")
	if err != nil {
		return nil, fmt.Errorf("the URL of /metrics: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("the request of /metrics: %w", err)
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4")
	response, err := remote.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return nil, apierrors.NewUnauthorized("the credentials of its kubeconfig are refused")
	default:
		return nil, &metricsError{problem: "its answer to /metrics is " + response.Status}
	}
	return selectLines(io.LimitReader(response.Body, maxMetricsBytes+1))
}

// selectLines keeps the lines of the one metric, of what may be hundreds of thousands.
func selectLines(body io.Reader) ([]byte, error) {
	var kept bytes.Buffer
	known, read := false, 0
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxMetricLine)
	for lines.Scan() {
		line := lines.Bytes()
		read += len(line) + 1
		known = known || bytes.HasPrefix(line, []byte(anyMetric))
		if bytes.HasPrefix(line, []byte(deprecatedMetric+"{")) {
			kept.Write(line)
			kept.WriteByte('\n')
		}
		if read > maxMetricsBytes || kept.Len() > maxDeprecatedBytes {
			return nil, &metricsError{problem: "its metrics are too long to be read"}
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, fmt.Errorf("reading the answer: %w", lines.Err())
	case !known:
		return nil, &metricsError{problem: "its answer to /metrics holds no metric of an API server"}
	}
	return kept.Bytes(), nil
}

// parseDeprecated reads the lines of the one metric.
func parseDeprecated(lines []byte) ([]gate.API, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(lines))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", deprecatedMetric, err)
	}
	var apis []gate.API
	for _, metric := range families[deprecatedMetric].GetMetric() {
		if metric.GetUntyped().GetValue() == 0 {
			continue
		}
		labels := map[string]string{}
		for _, pair := range metric.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		if labels["removed_release"] == "" {
			// It is deprecated, and nobody has decided when it goes.
			continue
		}
		removed, err := version.ParseMinor(labels["removed_release"])
		if err != nil {
			return nil, fmt.Errorf("the label removed_release of %s: %w", deprecatedMetric, err)
		}
		apis = append(apis, gate.API{
			Group: labels["group"], Version: labels["version"], Resource: labels["resource"], Subresource: labels["subresource"], Removed: removed,
		})
	}
	return apis, nil
}
