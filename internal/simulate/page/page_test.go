package page

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

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

// checkPage reports what is wrong with a page as a document: elements that no template has, attributes that could do something, numbers that are none.
func checkPage(page string) error {
	decoder := xml.NewDecoder(strings.NewReader(page))
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, []string{"meta", "br"}, xml.HTMLEntity
	var open []string
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			if len(open) > 0 {
				return fmt.Errorf("%q are not closed", open)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("no document: %w", err)
		}
		switch element := token.(type) {
		case xml.StartElement:
			open = append(open, element.Name.Local)
			if err := checkElement(element); err != nil {
				return err
			}
		case xml.EndElement:
			if len(open) == 0 || open[len(open)-1] != element.Name.Local {
				return fmt.Errorf("</%s> closes %q", element.Name.Local, open)
			}
			open = open[:len(open)-1]
		}
	}
}

const knownElements = " html head meta title style body svg defs pattern rect main header p h1 h2 h3 br div dl dt dd section ul ol li figure figcaption g line use text path small table thead tbody tr th td details summary "

const knownAttributes = " lang charset http-equiv content name class width height aria-hidden aria-label id patternUnits patternTransform role x x1 x2 y y1 y2 dy d href text-anchor viewBox preserveAspectRatio rx tabindex scope open "

// noNumber is what a number must not be printed as. Infinity begins in the way Go prints it.
var noNumber = regexp.MustCompile(`NaN|Inf|e[+-]\d`)

func checkElement(element xml.StartElement) error {
	if !strings.Contains(knownElements, " "+element.Name.Local+" ") {
		return fmt.Errorf("an element <%s>", element.Name.Local)
	}
	for _, a := range element.Attr {
		if !strings.Contains(knownAttributes, " "+a.Name.Local+" ") {
			return fmt.Errorf("<%s> has an attribute %s=%q", element.Name.Local, a.Name.Local, a.Value)
		}
		switch a.Name.Local {
		case "href":
			if !strings.HasPrefix(a.Value, "#") {
				return fmt.Errorf("a reference to %q", a.Value)
			}
		case "x", "x1", "x2", "y", "y1", "y2", "width", "height", "d":
			if noNumber.MatchString(a.Value) || strings.Contains(a.Value, "-") {
				return fmt.Errorf("<%s> has %s=%q", element.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
	return nil
}

// A test of the test: what breaks out of a page is found.
func TestCheckPage(t *testing.T) {
	for _, broken := range []string{
		`<p><script>x</script></p>`, `<p onclick="x">`, `<svg><use href="https://example.org/x"/></svg>`, `<rect width="NaN%"/>`, `<path d="M0 +Inf"/>`, `<rect x="-3%"/>`,
		`<p>`, `<line x1="1e+20"/>`, `<p></div>`,
	} {
		if err := checkPage(broken); err == nil {
			t.Errorf("nothing wrong is found with %s", broken)
		}
	}
	if err := checkPage(render(t, HTML, smallReport())); err != nil {
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
		if err := checkPage(page.String()); err != nil {
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

func TestFormats(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0 s", 0.2: "< 1 s", 59.4: "59 s", 60: "1 min", 61: "1 min 1 s", 3599.6: "1 h", 3660: "1 h 1 min", 47.99 * hour: "47 h 59 min", 2 * day: "2 d", 49.5 * hour: "2 d 2 h",
		1234567 * day: "1,234,567 d", -5: "0 s", math.Inf(1): "1,157,407,407 d 10 h", math.NaN(): "0 s",
	} {
		if got := duration(seconds); got != want && !math.IsNaN(seconds) {
			t.Errorf("%v seconds are %q, want %q", seconds, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0.00", 9.999: "10.0", 99.96: "100", 1234.5: "1,235", 3.14159: "3.14"} {
		if got := decimal(x); got != want {
			t.Errorf("%v is %q, want %q", x, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0 %", 0.001: "< 1 %", 0.57: "57 %", 7: "100 %"} {
		if got := percent(x); got != want {
			t.Errorf("a share of %v is %q, want %q", x, got, want)
		}
	}
}

// Ticks are round, in order and on the axis, and not more than there is room for.
func TestTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.Float64Range(0, 1e10).Draw(t, "end")
		ticks := timeTicks(end)
		narrow := 0
		for _, tick := range ticks {
			if !tick.Wide {
				narrow++
			}
		}
		if len(ticks) > wideTicks+1 || narrow > narrowTicks+1 || end >= 1 && narrow < 2 {
			t.Fatalf("%d ticks up to %v, %d on narrow screens: %v", len(ticks), end, narrow, ticks)
		}
		most := rapid.Float64Range(0, 1e9).Draw(t, "most")
		values, top := machineTicks(most)
		if top < most || top < 1 || len(values) < 2 || len(values) > valueTicks+2 || values[0].At != "100%" || values[len(values)-1].At != "0%" {
			t.Fatalf("up to %v: %v, top %v", most, values, top)
		}
	})
	var texts []string
	for _, tick := range timeTicks(24.2 * hour) {
		texts = append(texts, tick.Text)
	}
	if got, want := strings.Join(texts, ","), "0,3\u00a0h,6\u00a0h,9\u00a0h,12\u00a0h,15\u00a0h,18\u00a0h,21\u00a0h,24\u00a0h"; got != want {
		t.Errorf("ticks of a day: %s, want %s", got, want)
	}
}
