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
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/peer"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	// deprecatedMetric is 1 for every deprecated API that an API server has seen a request for since it started, and is not there
	// for others (KEP-1693).
	deprecatedMetric = "apiserver_requested_deprecated_apis"
	// startMetric is when the process that answers started, in seconds since 1970.
	startMetric = "process_start_time_seconds"
	// soak is for how long an API server must have run, before what it has not been asked for says anything: a client that uses an
	// API at all asks again after the server was restarted, at the latest when its watch ends, which is within ten minutes.
	soak = 10 * time.Minute
	// anyMetric begins the metrics of all API servers. Whoever answers without one is no API server, and does not know what is
	// in use.
	anyMetric = "apiserver_"
	// maxMetricsBytes bounds an answer, of which little is held in memory. Large API servers answer with tens of megabytes.
	maxMetricsBytes = 128 << 20
	// maxMetricLine bounds a line, and maxDeprecatedBytes what is kept of all.
	maxMetricLine, maxDeprecatedBytes = 1 << 20, 1 << 20
)

// DeprecatedAPIs returns the APIs that a cluster's API server has seen requests for since it started, and that a later minor removes.
// Of several API servers it is the one that answers: what only others were asked for is not seen. What one that has just been started
// says is an error: it has not been asked for much.
func (f *Facts) DeprecatedAPIs(ctx context.Context, cluster types.NamespacedName) ([]gate.API, error) {
	remote, err := f.clients.Client(ctx, cluster)
	if err != nil {
		return nil, newUnreachable(cluster, err)
	}
	found, err := readMetrics(ctx, remote)
	if _, ok := errors.AsType[*metricsError](err); ok {
		return nil, fmt.Errorf("the API server of Cluster %s: %w", cluster, err)
	}
	if err != nil {
		return nil, f.failed(ctx, cluster, remote, "metrics", checkError(err))
	}
	apis, err := parseDeprecated(found)
	if err != nil {
		return nil, fmt.Errorf("the metrics of Cluster %s: %w", cluster, err)
	}
	return apis, nil
}

// metricsError is the error of an answer that holds no metrics of an API server. The connection is all right.
type metricsError struct{ problem string }

func (e *metricsError) Error() string { return e.problem }

var errLongMetrics = &metricsError{problem: "its metrics are too long to be read"}

// samples are the metrics that count, of one answer.
type samples struct {
	// lines are those metrics.
	lines []byte
	// at is when the answer was given, by the clock of who gave it: it is compared with the start, which is by that clock, too.
	at time.Time
}

// readMetrics returns the metrics that count.
func readMetrics(ctx context.Context, remote *connection) (samples, error) {
	path, err := url.JoinPath(remote.host, "metrics")
	if err != nil {
		return samples{}, fmt.Errorf("the URL of /metrics: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	if err != nil {
		return samples{}, fmt.Errorf("the request of /metrics: %w", err)
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4")
	response, err := remote.metrics.Do(request)
	if err != nil {
		return samples{}, err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return samples{}, apierrors.NewUnauthorized("the credentials of its kubeconfig are refused")
	default:
		return samples{}, &metricsError{problem: "its answer to /metrics is " + statusWords(response.StatusCode)}
	}
	at, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return samples{}, &metricsError{problem: "its answer to /metrics has no date"}
	}
	lines, err := selectLines(response.Body)
	return samples{lines: lines, at: at}, err
}

// selectLines keeps the lines of the metrics that count, of what may be hundreds of thousands.
func selectLines(body io.Reader) ([]byte, error) {
	var kept bytes.Buffer
	known := false
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxMetricLine)
	for lines.Scan() {
		line := lines.Bytes()
		known = known || bytes.HasPrefix(line, []byte(anyMetric))
		if bytes.HasPrefix(line, []byte(deprecatedMetric+"{")) || bytes.HasPrefix(line, []byte(startMetric+" ")) {
			kept.Write(line)
			kept.WriteByte('\n')
		}
		if kept.Len() > maxDeprecatedBytes {
			return nil, errLongMetrics
		}
	}
	_, tooLong := errors.AsType[*peer.TooLongError](lines.Err())
	switch {
	case tooLong:
		return nil, errLongMetrics
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return nil, &metricsError{problem: "a line of its metrics cannot be read: token too long"}
	case lines.Err() != nil:
		return nil, fmt.Errorf("reading the answer: %w", lines.Err())
	case !known:
		return nil, &metricsError{problem: "its answer to /metrics holds no metric of an API server"}
	}
	return kept.Bytes(), nil
}

// parseDeprecated reads what an API server that has run for long enough says.
func parseDeprecated(found samples) ([]gate.API, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(found.lines))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %s", deprecatedMetric, text.Bound(err.Error(), maxShownBytes))
	}
	start := families[startMetric].GetMetric()
	if len(start) != 1 {
		return nil, fmt.Errorf("%s is missing, so it is not known when the API server started", startMetric)
	}
	if err := checkStart(start[0].GetUntyped().GetValue(), found.at); err != nil {
		return nil, err
	}
	var apis []gate.API
	for _, metric := range families[deprecatedMetric].GetMetric() {
		if metric.GetUntyped().GetValue() == 0 {
			continue
		}
		labels := map[string]string{}
		for _, pair := range metric.GetLabel() {
			labels[pair.GetName()] = text.Bound(pair.GetValue(), maxNameBytes)
		}
		if labels["removed_release"] == "" {
			// It is deprecated, and nobody has decided when it goes.
			continue
		}
		removed, err := version.ParseMinor(labels["removed_release"])
		if err != nil {
			return nil, fmt.Errorf("the label removed_release of %s: %s", deprecatedMetric, text.Bound(err.Error(), maxShownBytes))
		}
		apis = append(apis, gate.API{
			Group: labels["group"], Version: labels["version"], Resource: labels["resource"], Subresource: labels["subresource"], Removed: removed,
		})
	}
	return apis, nil
}

// checkStart says why what an API server that started then has not been asked for says nothing, in words that do not count seconds.
func checkStart(started float64, at time.Time) error {
	if age := float64(at.Unix()) - started; age >= soak.Seconds() {
		return nil
	}
	// Nor does a start that is no number.
	return fmt.Errorf("they say nothing yet: the API server has started less than %d minutes ago, and does not know who uses what", int(soak.Minutes()))
}
