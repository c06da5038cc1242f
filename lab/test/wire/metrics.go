package wire

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// Families are those that a process serves, by name.
type Families map[string]*dto.MetricFamily

// Scrape reads /metrics at an address, as https://127.0.0.1:port, with a client.
func Scrape(t *testing.T, c *http.Client, address string) Families {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("/metrics answers %s", response.Status)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// Labels returns the names of the labels of a family's first series, sorted.
func (f Families) Labels(name string) []string {
	var names []string
	for _, pair := range f[name].GetMetric()[0].GetLabel() {
		names = append(names, pair.GetName())
	}
	slices.Sort(names)
	return names
}

// Value returns the value of the only series of a gauge or counter, or of the number of
// observations of a histogram, whose labels have these values, and whether there is one.
func (f Families) Value(name string, labels map[string]string) (float64, bool) {
	for _, m := range f[name].GetMetric() {
		matches := 0
		for _, pair := range m.GetLabel() {
			if labels[pair.GetName()] == pair.GetValue() && pair.GetValue() != "" {
				matches++
			}
		}
		if matches == len(labels) {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount()), true
		}
	}
	return 0, false
}

var (
	metricRow   = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (?:[a-z]+(?:, [a-z]+)? \\| )?([^|]+) \\| [^|]+ \\|$")
	metricLabel = regexp.MustCompile("`([a-z_]+)`")
)

// ListedFamilies returns the families of docs/reference/metrics.md with their labels, sorted.
func ListedFamilies(t *testing.T) map[string][]string {
	t.Helper()
	source, err := devplane.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(source, "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string][]string{}
	for _, found := range metricRow.FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(found[1], "_") {
			continue // A row about values of a label.
		}
		listed[found[1]] = nil
		for _, label := range metricLabel.FindAllStringSubmatch(found[2], -1) {
			listed[found[1]] = append(listed[found[1]], label[1])
		}
		slices.Sort(listed[found[1]])
	}
	return listed
}

// CheckServed compares the families of the page that are selected with those that a process serves.
func CheckServed(t *testing.T, served Families, selected func(name string) bool) {
	t.Helper()
	checked := 0
	for name, labels := range ListedFamilies(t) {
		switch {
		case !selected(name):
			continue
		case len(served[name].GetMetric()) == 0:
			t.Errorf("%s is not served", name)
		case !slices.Equal(served.Labels(name), labels):
			t.Errorf("%s is served with the labels %v; the page lists %v", name, served.Labels(name), labels)
		}
		checked++
	}
	if checked == 0 {
		t.Error("the page lists none of the families")
	}
}
