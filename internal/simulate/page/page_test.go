package page

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/htmlpage/htmlpagetest"
	"github.com/windlass-dev/windlass/internal/simulate/whatif"
)

var update = flag.Bool("update", false, "write the golden files anew")

// terminal is the width of a terminal.
const terminal = 100

func narrow(w io.Writer, r whatif.Report) error { return Table(w, terminal, r) }

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatalf("writing %s: %v", path, err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading %s: %v", path, err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// smallReport is written by hand, and has something of everything.
func smallReport() whatif.Report {
	return whatif.Report{
		Inputs: whatif.Inputs{
			Clusters: 2, Pools: 2, Machines: 16, ControlPlaneMachines: 6, From: []string{"v1.33.1"}, To: []string{"v1.34.0"}, Runs: 10, Seed: 7, Verified: true, Faults: true,
		},
		Assumptions: []string{"Drains take 5 minutes.", "Failure domains are <never> away."},
		Versions:    []string{"v1.33.1", "v1.34.0"},
		Variants: []whatif.Result{
			{
				Name: "as configured", Description: "The policies, limits and concurrency as they were given.",
				Outcomes:   whatif.Outcomes{Completed: 8, Stuck: 1, Violated: 1},
				Duration:   &whatif.Durations{Runs: 8, MinSeconds: 3000, P10Seconds: 3300, P50Seconds: 3600, P90Seconds: 4500, MaxSeconds: 5400},
				Unfinished: []whatif.Unfinished{{Outcome: "Stuck", Why: "waits for a person", Runs: 1, Seed: 9}, {Outcome: "Violated", Why: "2 control plane machines were down", Runs: 1, Seed: 11}},
				Violation:  &whatif.Violation{Seed: 11, AtSeconds: 61, Cluster: "east", Problem: "2 control plane machines were down", Trace: []string{"m-1 drained", "m-2 drained"}},
				Median: whatif.Median{
					Seed: 8, Outcome: "Completed", DurationSeconds: 3600, DownSeconds: 7260, Replaced: 6, Updated: 10, Drained: 16, Failed: 1, MaxInFlight: 3,
					Writes: whatif.Writes{Engine: 48, Others: 110, EnginePerMachine: 3, OthersPerMachine: 6.88},
					CriticalPath: whatif.CriticalPath{
						Sentence: "60 % of the time is pool a of east at maxUnavailable 3; 10 % is waiting for approval",
						Shares: []whatif.Share{
							{Kind: whatif.Pool, Limit: "maxUnavailable 3", Groups: 1, LongestCluster: "east", Longest: "a", LongestSeconds: 2160, Seconds: 2160, Share: 0.6},
							{Kind: whatif.ControlPlane, Limit: "one machine at a time", Groups: 2, LongestCluster: "east", Longest: "control plane", Seconds: 1080, Share: 0.3},
							{Kind: whatif.Wait, Limit: "approval", Groups: 1, Seconds: 360, Share: 0.1},
						},
					},
					Groups: []whatif.Group{
						{Cluster: "east", Group: "control plane", Machines: 3, Stops: 1, Disruptions: 3, Replaced: 3, Drained: 3, MaxDown: 1, DownSeconds: 600},
						{Cluster: "east", Group: "a", Machines: 10, Stops: 1, Disruptions: 10, Updated: 10, Drained: 10, Failed: 1, MaxDown: 3, DownSeconds: 6000},
						{Cluster: "west", Group: "control plane", Machines: 3, Stops: 1, Disruptions: 3, Replaced: 3, Drained: 3, MaxDown: 1, DownSeconds: 660},
					},
					Charts: whatif.Charts{
						Timeline: []whatif.Row{
							{Kind: whatif.Wait, Cluster: "east", LastCluster: "east", Groups: 1, Bars: []whatif.Bar{{Limit: "approval", EndedSeconds: 360, Operations: 1}}},
							{Kind: whatif.ControlPlane, Cluster: "east", Name: "control plane", LastCluster: "west", LastName: "control plane", Groups: 2, Bars: []whatif.Bar{
								{From: "v1.33.1", To: "v1.34.0", Method: whatif.Replace, Limit: "one machine at a time", BeganSeconds: 360, EndedSeconds: 1440, Operations: 2}}},
							{Kind: whatif.Pool, Cluster: "east", Name: "a", LastCluster: "east", LastName: "a", Groups: 1, Bars: []whatif.Bar{
								{From: "v1.33.1", To: "v1.34.0", Method: whatif.InPlace, Limit: "maxUnavailable 3", BeganSeconds: 1440, EndedSeconds: 3600, Operations: 1}}},
						},
						InFlight: []whatif.Point{{AtSeconds: 360, Machines: 1}, {AtSeconds: 1440, Machines: 3}, {AtSeconds: 3600}},
						Versions: []string{"v1.33.1", "v1.34.0"},
						Machines: []whatif.MachinesPoint{{Counts: []int{16, 0}}, {AtSeconds: 1440, Counts: []int{10, 6}}, {AtSeconds: 3600, Counts: []int{0, 16}}},
					},
				},
			},
			{
				Name: "twice the machines at once", Description: "As configured, with maxInFlight 2 times as high.", Outcomes: whatif.Outcomes{GivenUp: 10},
				Unfinished: []whatif.Unfinished{{Outcome: "GivenUp", Why: "waits for approval", Runs: 10, Seed: 7}}, Median: whatif.Median{Seed: 7, Outcome: "GivenUp"},
			},
		},
	}
}

func render(tb testing.TB, write func(io.Writer, whatif.Report) error, r whatif.Report) string {
	tb.Helper()
	var out bytes.Buffer
	if err := write(&out, r); err != nil {
		tb.Fatalf("writing a report: %v", err)
	}
	return out.String()
}

func TestGolden(t *testing.T) {
	for file, write := range map[string]func(io.Writer, whatif.Report) error{"small.html": HTML, "small.txt": narrow, "small.json": JSON} {
		got := render(t, write, smallReport())
		golden(t, file, got)
		if again := render(t, write, smallReport()); again != got {
			t.Errorf("%s differs the second time", file)
		}
	}
	var read whatif.Report
	if err := json.Unmarshal([]byte(render(t, JSON, smallReport())), &read); err != nil {
		t.Fatalf("reading the report: %v", err)
	}
	if diff := cmp.Diff(render(t, JSON, smallReport()), render(t, JSON, read)); diff != "" {
		t.Errorf("the report is another one after it was read:\n%s", diff)
	}
}

// A page of thousands of pools and many runs stays small, and so is what a terminal shows.
func TestLargeReportIsSmall(t *testing.T) {
	r := sampleReport(t, 10_000, 1)
	if got := len(render(t, HTML, r)); got > 1<<20 {
		t.Errorf("the page has %d bytes", got)
	}
	text := render(t, narrow, r)
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > terminal {
			t.Errorf("a line of %d characters: %s", n, line)
		}
	}
	for line := range strings.Lines(render(t, narrow, sampleReport(t, 300, 3))) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > terminal {
			t.Errorf("a line of %d characters: %s", n, line)
		}
	}
}

func TestPageIsADocument(t *testing.T) {
	if err := htmlpagetest.Check(render(t, HTML, smallReport())); err != nil {
		t.Error(err)
	}
}

func hostile() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		`</title></style><script>alert(1)</script>`, `" onload="alert(1)`, `'><img src=x onerror=alert(1)>`, "]]>", "<!--", "javascript:alert(1)", "\x00\xff\u202e\x1b[31m", "{{.}}", `&lt;`, "",
		strings.Repeat("x", 5000), "url(#x)}*{display:none}", "\u2028",
	}))
}

func extreme() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, -1, 1e-9, 1, 86400, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)}))
}

func count64() *rapid.Generator[int] {
	return rapid.OneOf(rapid.Int(), rapid.SampledFrom([]int{0, 1, -1, 30000, math.MaxInt, math.MinInt}))
}

func drawRow(t *rapid.T) whatif.Row {
	bar := rapid.Custom(func(t *rapid.T) whatif.Bar {
		return whatif.Bar{
			From: hostile().Draw(t, "from"), To: hostile().Draw(t, "to"), Method: whatif.Method(rapid.SampledFrom([]string{"", "InPlace", "Replace", "Mixed", "?"}).Draw(t, "method")),
			Limit: hostile().Draw(t, "limit"), BeganSeconds: extreme().Draw(t, "began"), EndedSeconds: extreme().Draw(t, "ended"),
		}
	})
	return whatif.Row{
		Kind:    whatif.Kind(rapid.SampledFrom([]string{"ControlPlane", "Pool", "Wait", "?"}).Draw(t, "kind")),
		Cluster: hostile().Draw(t, "cluster"), Name: hostile().Draw(t, "name"), LastCluster: hostile().Draw(t, "last cluster"), LastName: hostile().Draw(t, "last"),
		Groups: count64().Draw(t, "groups"), Bars: rapid.SliceOfN(bar, 0, 6).Draw(t, "bars"),
	}
}

func drawResult(t *rapid.T) whatif.Result {
	result := whatif.Result{
		Name: hostile().Draw(t, "name"), Description: hostile().Draw(t, "description"),
		Outcomes: whatif.Outcomes{Completed: count64().Draw(t, "completed"), Stuck: count64().Draw(t, "stuck")},
		Median: whatif.Median{
			DurationSeconds: extreme().Draw(t, "duration"), DownSeconds: extreme().Draw(t, "down"), MaxInFlight: count64().Draw(t, "in flight"), Replaced: count64().Draw(t, "replaced"),
			Writes:       whatif.Writes{Engine: count64().Draw(t, "writes"), EnginePerMachine: extreme().Draw(t, "per machine")},
			CriticalPath: whatif.CriticalPath{Sentence: hostile().Draw(t, "sentence"), Shares: []whatif.Share{{Limit: hostile().Draw(t, "limit"), Share: extreme().Draw(t, "share")}}},
			Groups:       []whatif.Group{{Cluster: hostile().Draw(t, "cluster"), Group: hostile().Draw(t, "group"), DownSeconds: extreme().Draw(t, "down")}},
			Charts: whatif.Charts{
				Timeline: rapid.SliceOfN(rapid.Custom(drawRow), 0, 4).Draw(t, "rows"),
				InFlight: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) whatif.Point {
					return whatif.Point{AtSeconds: extreme().Draw(t, "at"), Machines: count64().Draw(t, "machines")}
				}), 0, 4).Draw(t, "in flight"),
				Versions: rapid.SliceOfN(hostile(), 0, 3).Draw(t, "versions"),
				Machines: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) whatif.MachinesPoint {
					return whatif.MachinesPoint{AtSeconds: extreme().Draw(t, "at"), Counts: rapid.SliceOfN(count64(), 0, 4).Draw(t, "counts")}
				}), 0, 4).Draw(t, "machines"),
			},
		},
	}
	if rapid.Bool().Draw(t, "durations") {
		result.Duration = &whatif.Durations{P10Seconds: extreme().Draw(t, "p10"), P50Seconds: extreme().Draw(t, "p50"), P90Seconds: extreme().Draw(t, "p90")}
	}
	if rapid.Bool().Draw(t, "violation") {
		result.Violation = &whatif.Violation{Cluster: hostile().Draw(t, "cluster"), Problem: hostile().Draw(t, "problem"), Trace: []string{hostile().Draw(t, "trace")}}
		result.Unfinished = []whatif.Unfinished{{Outcome: hostile().Draw(t, "outcome"), Why: hostile().Draw(t, "why")}}
	}
	return result
}

// Whatever names and numbers a report has, it is text on the page, drawn with numbers, and nothing that a terminal acts on.
func TestNothingBreaksOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := whatif.Report{
			Inputs:      whatif.Inputs{Clusters: count64().Draw(t, "clusters"), Machines: count64().Draw(t, "machines"), Runs: count64().Draw(t, "runs"), From: []string{hostile().Draw(t, "from")}, To: []string{"v1"}},
			Assumptions: rapid.SliceOfN(hostile(), 0, 3).Draw(t, "assumptions"), Versions: rapid.SliceOfN(hostile(), 0, 20).Draw(t, "versions"),
			Variants: rapid.SliceOfN(rapid.Custom(drawResult), 0, 3).Draw(t, "variants"),
		}
		var page, table bytes.Buffer
		if err := HTML(&page, r); err != nil {
			t.Fatalf("HTML: %v", err)
		}
		if err := htmlpagetest.Check(page.String()); err != nil {
			t.Fatal(err)
		}
		if err := narrow(&table, r); err != nil {
			t.Fatalf("Table: %v", err)
		}
		if bad := strings.IndexFunc(table.String(), func(c rune) bool { return c < ' ' && c != '\n' || c == '\u202e' }); bad >= 0 {
			t.Fatalf("the table has %q", table.String()[bad:min(bad+10, table.Len())])
		}
	})
}

// TestFixed: where nothing is random, no percentile repeats the duration, on the page and in the table.
func TestFixed(t *testing.T) {
	t.Parallel()
	r := smallReport()
	for _, fixed := range []bool{false, true} {
		for i := range r.Variants {
			if d := r.Variants[i].Duration; d != nil && fixed {
				// Less than a minute is not shown.
				d.P10Seconds, d.P90Seconds, d.MinSeconds, d.MaxSeconds = d.P50Seconds, d.P50Seconds, d.P50Seconds, d.P50Seconds+5
			}
		}
		for _, text := range []string{render(t, HTML, r), render(t, func(w io.Writer, r whatif.Report) error { return Table(w, 0, r) }, r)} {
			if repeats := strings.Contains(text, "p90"); repeats == fixed {
				t.Errorf("fixed=%t: percentiles are shown: %t", fixed, repeats)
			}
		}
	}
}

// TestPageOrder: the chart comes before what is assumed, and each variant has one legend.
func TestPageOrder(t *testing.T) {
	t.Parallel()
	r := smallReport()
	page := render(t, HTML, r)
	if strings.Index(page, `class="comparison"`) > strings.Index(page, "What is assumed</h2>") {
		t.Error("what is assumed pushes the chart down")
	}
	drawn := 0
	for _, v := range r.Variants {
		if len(v.Median.Charts.Timeline)+len(v.Median.Charts.Versions) > 0 {
			drawn++
		}
	}
	if n := strings.Count(page, `<ul class="legend">`); n > drawn {
		t.Errorf("%d legends of %d variants", n, drawn)
	}
}
