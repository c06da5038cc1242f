package prometheus

import (
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
)

const validation = model.LegacyValidation

var promql = parser.NewParser(parser.Options{})

// scraped are the labels that Prometheus adds to every series.
var scraped = []string{"namespace", "job", "pod", "instance"}

// bounded are labels whose values the page lists.
var bounded = []string{"reason", "phase", "result", "updater", "serves"}

// TestQueriesUseWhatIsServed: rules and dashboard use families and labels of
// docs/reference/metrics.md only.
func TestQueriesUseWhatIsServed(t *testing.T) {
	t.Parallel()
	families, page := loadFamilies(t), string(read(t, "docs/reference/metrics.md"))
	for _, q := range loadQueries(t) {
		known := slices.Clone(scraped)
		expr := parse(t, q)
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			name, f := find(families, selector.Name)
			if name == "" {
				t.Errorf("%s uses %s, which the page does not have", q.where, selector.Name)
				return nil
			}
			allowed := slices.Clone(scraped)
			for label := range f.labels {
				allowed = append(allowed, label)
			}
			if f.histogram {
				allowed = append(allowed, "le")
			}
			for _, m := range selector.LabelMatchers {
				if m.Name != model.MetricNameLabel && !slices.Contains(allowed, m.Name) {
					t.Errorf("%s selects %s by %s, which it does not have", q.where, selector.Name, m.Name)
				}
				if !slices.Contains(bounded, m.Name) {
					continue
				}
				for value := range strings.SplitSeq(m.Value, "|") {
					if !strings.Contains(page, "`"+value+"`") {
						t.Errorf("%s selects %s by the %s %q, which the page does not list", q.where, selector.Name, m.Name, value)
					}
				}
			}
			known = append(known, allowed...)
			return nil
		})
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if a, ok := node.(*parser.AggregateExpr); ok {
				for _, label := range a.Grouping {
					if !slices.Contains(known, label) {
						t.Errorf("%s groups by %s, which no series of it has", q.where, label)
					}
				}
			}
			return nil
		})
	}
}

// find returns the family of a series' name.
func find(families map[string]family, series string) (string, family) {
	if f, ok := families[series]; ok && !f.histogram {
		return series, f
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, cut := strings.CutSuffix(series, suffix); cut && families[name].histogram {
			return name, families[name]
		}
	}
	return "", family{}
}

var templateLabel = regexp.MustCompile(`\$labels\.(\w+)`)

// TestTemplatesUseWhatAlertsHave: the texts of an alert name labels only that its expression keeps.
func TestTemplatesUseWhatAlertsHave(t *testing.T) {
	t.Parallel()
	for _, r := range loadRules(t) {
		var kept []string
		parser.Inspect(parse(t, query{r.Alert, r.Expr}), func(node parser.Node, _ []parser.Node) error {
			if a, ok := node.(*parser.AggregateExpr); ok {
				kept = append(kept, a.Grouping...)
			}
			return nil
		})
		for key, text := range r.Annotations {
			for _, found := range templateLabel.FindAllStringSubmatch(text, -1) {
				if !slices.Contains(kept, found[1]) {
					t.Errorf("the %s of %s names %s, which the alert does not have", key, r.Alert, found[1])
				}
			}
		}
	}
}

// healthy are series, one a minute, during which no alert fires: an upgrade moves, another one is
// held for a while, a gate waits for hours, a partition holds a pool, one replica leads, answers are
// fast, and few of them fail.
const healthy = `load 1m
	windlass_leader{namespace="w",job="j",serves="extension",pod="a"} 1+0x1600
	windlass_leader{namespace="w",job="j",serves="extension",pod="b"} 0+0x1600
	windlass_active{namespace="w",job="j",pod="a"} 1+0x1600
	windlass_active{namespace="w",job="j",pod="b"} 0+0x1600
	windlass_cluster_upgrade_info{cluster_namespace="n",cluster="c",from="v1.31.0",to="v1.32.0",phase="Upgrading"} 1+0x1600
	windlass_cluster_machines_up_to_date{cluster_namespace="n",cluster="c",pod="a"} 0x300 1x300 2x300 _x698
	windlass_cluster_machines_up_to_date{cluster_namespace="n",cluster="c",pod="b"} _x903 2x30 3x300 4x300
	windlass_metrics_omitted_label_sets{namespace="w",job="j",family="windlass_gate_waiting"} 0+0x1600
	windlass_machine_updates{cluster_namespace="n",cluster="e",phase="Updating"} 1+0x1600
	windlass_machine_update_duration_seconds_count{cluster_namespace="n",cluster="e",result="failure"} _x300 1x1300
	windlass_machine_update_duration_seconds_count{cluster_namespace="n",cluster="e",result="success"} _x600 1x300 2x300 3x300 4x96
	windlass_cluster_upgrade_held_seconds{cluster_namespace="n",cluster="c",reason="Hook"} 0+60x50 _x1550
	windlass_cluster_upgrade_held_seconds{cluster_namespace="n",cluster="c",reason="Rule"} 0+60x9 _x1591
	windlass_cluster_upgrade_held_seconds{cluster_namespace="n",cluster="d",reason="UpgradeGate"} 0+60x1430 _x170
	windlass_machine_updates{cluster_namespace="n",cluster="c",phase="Updating"} 3+0x1600
	windlass_machine_updates{cluster_namespace="n",cluster="d",phase="Failed"} 1+0x3 stale
	windlass_machinedeployment_blocked{cluster_namespace="n",cluster="c",machinedeployment="a",reason="Partition"} 1+0x1600
	windlass_machinedeployment_blocked{cluster_namespace="n",cluster="c",machinedeployment="b",reason="NodeMissing"} 1+0x28 stale
	controller_runtime_webhook_requests_total{namespace="w",webhook="/guard-machine",code="200"} 0+60x1600
	controller_runtime_webhook_requests_total{namespace="w",webhook="/guard-machine",code="500"} 0+1x1600
	controller_runtime_webhook_requests_total{namespace="w",webhook="/mutate-other",code="500"} 0+60x1600
	controller_runtime_webhook_latency_seconds_sum{namespace="w",webhook="/guard-machine"} 0+6x1600
	controller_runtime_webhook_latency_seconds_count{namespace="w",webhook="/guard-machine"} 0+60x1600
	controller_runtime_webhook_latency_seconds_sum{namespace="w",webhook="/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/update-machine"} 0+120x1600
	controller_runtime_webhook_latency_seconds_count{namespace="w",webhook="/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/update-machine"} 0+12x1600
`

const leads = `
	windlass_leader{namespace="w",job="j",serves="extension",pod="a"} 1+0x1600`

// broken has series for each alert during which it, and it alone, fires, and from which minute.
var broken = map[string][]struct {
	series string
	from   int
}{
	"WindlassUpgradeHeld": {
		{leads + `
	windlass_cluster_upgrade_held_seconds{cluster_namespace="n",cluster="c",reason="Hook"} 0+60x1600`, 66},
		// Another replica leads meanwhile.
		{leads + `
	windlass_cluster_upgrade_held_seconds{cluster_namespace="n",cluster="c",reason="Pause",pod="a"} 0+60x62 _x1538
	windlass_cluster_upgrade_held_seconds{cluster_namespace="n",cluster="c",reason="Pause",pod="b"} _x62 3720+60x1538`, 66},
	},
	"WindlassGateWaits": {{leads + `
	windlass_cluster_upgrade_held_seconds{cluster_namespace="n",cluster="c",reason="UpgradeGate"} 0+60x1600`, 1446}},
	"WindlassUpgradePathLost": {{leads + `
	windlass_cluster_upgrade_held_seconds{cluster_namespace="n",cluster="c",reason="Rule"} 0+60x1600`, 16}},
	"WindlassMachineUpdateFailed": {{leads + `
	windlass_machine_updates{cluster_namespace="n",cluster="c",phase="Failed"} 1+0x1600`, 5}},
	"WindlassPoolHeld": {
		// The reason changes, and then another replica leads.
		{leads + `
	windlass_machinedeployment_blocked{cluster_namespace="n",cluster="c",machinedeployment="md",reason="CoverageUnknown",pod="a"} 1+0x10 stale
	windlass_machinedeployment_blocked{cluster_namespace="n",cluster="c",machinedeployment="md",reason="CanaryFailed",pod="a"} _x10 1x10 stale
	windlass_machinedeployment_blocked{cluster_namespace="n",cluster="c",machinedeployment="md",reason="CanaryFailed",pod="b"} _x20 1x1500`, 30},
	},
	"WindlassUpgradeStalls": {
		// A drain that never ends: its update counts once.
		{leads + `
	windlass_cluster_upgrade_info{cluster_namespace="n",cluster="c",from="v1.31.0",to="v1.32.0",phase="Upgrading"} 1+0x1600
	windlass_cluster_machines_up_to_date{cluster_namespace="n",cluster="c"} 2+0x1600
	windlass_machine_updates{cluster_namespace="n",cluster="c",phase="Draining"} 1+0x1600`, 360},
		// The last machine was replaced in minute 101.
		{leads + `
	windlass_cluster_upgrade_info{cluster_namespace="n",cluster="c",from="v1.31.0",to="v1.32.0",phase="Upgrading"} 1+0x1600
	windlass_cluster_machines_up_to_date{cluster_namespace="n",cluster="c"} 2x100 3x1500`, 490},
	},
	"WindlassMachineUpdatesStall": {
		{leads + `
	windlass_machine_updates{cluster_namespace="n",cluster="c",phase="Draining"} 1+0x1600`, 360},
		// The first update ended in minute 101.
		{leads + `
	windlass_machine_updates{cluster_namespace="n",cluster="c",phase="Draining"} 1+0x1600
	windlass_machine_update_duration_seconds_count{cluster_namespace="n",cluster="c",result="success"} _x101 1x1500`, 491},
	},
	"WindlassRecordUnreadable": {{leads + `
	windlass_machine_updates{cluster_namespace="n",cluster="c",phase="Unreadable"} 1+0x1600`, 5}},
	"WindlassMetricsOmitted": {{leads + `
	windlass_metrics_omitted_label_sets{namespace="w",job="j",family="windlass_gate_waiting"} 3+0x1600`, 15}},
	"WindlassNobodyLeads": {
		{`
	windlass_leader{namespace="w",job="j",serves="extension",pod="a"} 0+0x1600
	windlass_leader{namespace="w",job="j",serves="extension",pod="b"} 0+0x1600`, 2},
		{`
	windlass_machine_updates{cluster_namespace="n",cluster="c",phase="Updating"} 1+0x10`, 2},
		// The extension was never seen; a manager leads.
		{`
	windlass_leader{namespace="c",job="m",serves="manager",pod="m"} 1+0x1600`, 2},
		// The extension is gone; a manager leads.
		{`
	windlass_leader{namespace="c",job="m",serves="manager",pod="m"} 1+0x1600
	windlass_leader{namespace="w",job="j",serves="extension",pod="a"} 1+0x100 stale`, 103},
		// The extension of one shard is gone.
		{leads + `
	windlass_leader{namespace="shard",job="j",serves="extension",pod="a"} 1+0x100 stale`, 103},
	},
	"WindlassNoActivePod": {{leads + `
	windlass_active{namespace="w",job="j",pod="a"} 0+0x1600
	windlass_active{namespace="w",job="j",pod="b"} 0+0x1600`, 2}},
	"WindlassAnswersFail": {{leads + `
	controller_runtime_webhook_requests_total{namespace="w",webhook="/guard-machine",code="200"} 0+60x1600
	controller_runtime_webhook_requests_total{namespace="w",webhook="/guard-machine",code="500"} 0+6x1600`, 11}},
	"WindlassAnswersSlowly": {
		{leads + `
	controller_runtime_webhook_latency_seconds_sum{namespace="w",webhook="/guard-machine"} 0+40x1600
	controller_runtime_webhook_latency_seconds_count{namespace="w",webhook="/guard-machine"} 0+10x1600`, 11},
		{leads + `
	controller_runtime_webhook_latency_seconds_sum{namespace="w",webhook="/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/update-machine"} 0+200x1600
	controller_runtime_webhook_latency_seconds_count{namespace="w",webhook="/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/update-machine"} 0+10x1600`, 11},
	},
}

// TestAlerts: each alert fires when it should, and none while all is well.
func TestAlerts(t *testing.T) {
	t.Parallel()
	all := loadRules(t)
	t.Run("healthy", func(t *testing.T) {
		t.Parallel()
		if fired := evaluate(t, all, healthy, 1500); len(fired) > 0 {
			t.Errorf("these alerts fire, from the minute: %v", fired)
		}
	})
	for _, r := range all {
		if len(broken[r.Alert]) == 0 {
			t.Errorf("no series have %s fire", r.Alert)
		}
		for i, b := range broken[r.Alert] {
			t.Run(r.Alert+"/"+string(rune('a'+i)), func(t *testing.T) {
				t.Parallel()
				want := map[string]int{r.Alert: b.from}
				if diff := cmp.Diff(want, evaluate(t, all, "load 1m"+b.series+"\n", b.from+5)); diff != "" {
					t.Errorf("the minutes from which alerts fire (-want +got)\n%s", diff)
				}
			})
		}
	}
	if len(broken) != len(all) {
		t.Errorf("there are series for %d alerts; the rules have %d", len(broken), len(all))
	}
}

// longBlocks has the storage take series in any order: it refuses samples that are older than the
// first one by more than half a block, and the order is random.
func longBlocks(o *tsdb.Options) {
	o.MinBlockDuration = (72 * time.Hour).Milliseconds()
	o.MaxBlockDuration = o.MinBlockDuration
}

// evaluate evaluates all alerts once a minute, and returns in which minute each of them fired
// first.
func evaluate(t *testing.T, all []rulefmt.Rule, series string, minutes int) map[string]int {
	t.Helper()
	storage := promqltest.LoadedStorage(t, series, longBlocks)
	engine := promqltest.NewTestEngine(t, false, 0, 1_000_000)
	fired := map[string]int{}
	for _, r := range all {
		expr := parse(t, query{r.Alert, r.Expr})
		rule := rules.NewAlertingRule(r.Alert, expr, time.Duration(r.For), 0, labels.FromMap(r.Labels), labels.FromMap(r.Annotations),
			labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
		for minute := range minutes {
			at := time.Unix(0, 0).UTC().Add(time.Duration(minute) * time.Minute)
			if _, err := rule.Eval(t.Context(), 0, at, rules.EngineQueryFunc(engine, storage), &url.URL{}, 0); err != nil {
				t.Fatalf("%s: %v", r.Alert, err)
			}
			rule.SetEvaluationTimestamp(at)
			if rule.State() == rules.StateFiring {
				fired[r.Alert] = minute
				break
			}
		}
	}
	return fired
}
