package prometheus

import (
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// loadRules reads the rules as Prometheus does, which refuses unknown fields, bad expressions and
// bad templates.
func loadRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	var object struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := yaml.Unmarshal(read(t, "config/prometheus/rules.yaml"), &object); err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(object.Spec, false, validation, promql, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	var rules []rulefmt.Rule
	for _, g := range groups.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

// query is an expression, and where it is.
type query struct{ where, expr string }

// variables are those of Grafana outside of quotes.
var variables = strings.NewReplacer("$__rate_interval", "5m")

// loadQueries returns what rules and dashboard ask.
func loadQueries(t *testing.T) []query {
	t.Helper()
	var queries []query
	for _, r := range loadRules(t) {
		queries = append(queries, query{where: "alert " + r.Alert, expr: r.Expr})
	}
	var dashboard struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(read(t, "config/prometheus/dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("the panel %q asks nothing", p.Title)
		}
		for _, target := range p.Targets {
			queries = append(queries, query{where: "panel " + p.Title, expr: variables.Replace(target.Expr)})
		}
	}
	return queries
}

// family is a row of docs/reference/metrics.md, which other tests compare with what the programs
// serve.
type family struct {
	histogram bool
	labels    map[string]bool
}

var (
	row    = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (?:([a-z]+)[^|]*\\| )?([^|]+) \\| [^|]+ \\|$")
	quoted = regexp.MustCompile("`([a-z_]+)`")
)

// loadFamilies reads the page. Families of libraries have no column of types there.
func loadFamilies(t *testing.T) map[string]family {
	t.Helper()
	families := map[string]family{}
	for _, found := range row.FindAllStringSubmatch(string(read(t, "docs/reference/metrics.md")), -1) {
		f := family{histogram: found[2] == "histogram" || strings.HasSuffix(found[1], "_latency_seconds"), labels: map[string]bool{}}
		for _, label := range quoted.FindAllStringSubmatch(found[3], -1) {
			f.labels[label[1]] = true
		}
		families[found[1]] = f
	}
	if len(families) < 10 {
		t.Fatalf("the page has the families %v", families)
	}
	return families
}

// parse parses PromQL.
func parse(t *testing.T, q query) parser.Expr {
	t.Helper()
	expr, err := promql.ParseExpr(q.expr)
	if err != nil {
		t.Fatalf("%s: %v", q.where, err)
	}
	return expr
}
