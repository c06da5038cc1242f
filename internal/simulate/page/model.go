package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"

	"github.com/windlass-dev/windlass/internal/htmlpage"
	"github.com/windlass-dev/windlass/internal/simulate/whatif"
)

// maxWorst is how many groups a list of the most disrupted has.
const maxWorst = 10

// model is what the page's template is filled with.
type model struct {
	Style, Colours  template.CSS
	Title, Subtitle string
	// Sentence is about the first variant, as Headlines and Warnings are.
	Sentence    string
	Headlines   []headline
	Warnings    []string
	Assumptions []string
	Comparison  comparison
	Runs        string
	// Fixed says that every run of a variant takes the same time, as it is shown.
	Fixed    bool
	Variants []variant
	// Durations and Costs are about all variants.
	Durations, Costs figures
	GroupHead        []string
}

// figures are a table. The first cell of a row says what the row is about.
type figures struct {
	Label string
	Head  []string
	Rows  [][]string
}

type headline struct{ Label, Value, Note string }

// variant is what is shown of one variant.
type variant struct {
	ID, Name, Description, Sentence, MedianNote string
	Open, Trouble                               bool
	Outcome                                     string
	Unfinished                                  []string
	Violation                                   *violation
	Timeline                                    htmlpage.Timeline
	Versions, InFlight                          plot
	// Legend is of the timeline and of the machines by version.
	Legend     []htmlpage.LegendEntry
	Shares     [][]string
	Worst      [][]string
	MoreGroups string
}

type violation struct {
	Text  string
	Trace []string
}

func computeModel(r whatif.Report) model {
	m := model{
		Style: htmlpage.Style(), Colours: htmlpage.ColourStyle(len(r.Versions)),
		Title: describeUpgrade(r.Inputs), Subtitle: describeFleet(r.Inputs), Runs: describeRuns(r.Inputs), Comparison: computeComparison(r),
	}
	for _, a := range r.Assumptions {
		m.Assumptions = append(m.Assumptions, htmlpage.Sentence(a))
	}
	m.GroupHead = []string{"Group", "Machines", "Stops", "Updated", "Replaced", "Drained", "Failed", "Down at most", "Machine-hours down"}
	m.Fixed = isFixed(r)
	m.Durations = figures{Label: "How long each variant takes", Head: durationHead(r)}
	m.Costs = figures{
		Label: "What each variant costs",
		Head:  []string{"Variant", "Machine-hours down", "Updated", "Replaced", "Drained", "Failed", "In flight at most", "API writes", "Per machine"},
	}
	colours := palette(r.Versions)
	for i, v := range r.Variants {
		m.Durations.Rows, m.Costs.Rows = append(m.Durations.Rows, durationCells(r, v)), append(m.Costs.Rows, costCells(v))
		m.Variants = append(m.Variants, computeVariant(r, v, i, colours))
	}
	if len(r.Variants) > 0 {
		first := r.Variants[0]
		m.Sentence, m.Headlines, m.Warnings = describePath(first.Median), computeHeadlines(r.Inputs, first), computeWarnings(r)
	}
	return m
}

func describeUpgrade(in whatif.Inputs) string {
	if len(in.From) == 0 || len(in.To) == 0 {
		return "Upgrade of " + htmlpage.Count(in.Machines, "machine")
	}
	return fmt.Sprintf("Upgrade of %s from %s to %s", htmlpage.Bind(htmlpage.Count(in.Machines, "machine")), htmlpage.List(in.From), htmlpage.List(in.To))
}

func describeFleet(in whatif.Inputs) string {
	return fmt.Sprintf("%s, %s, %s of control planes and %s of workers", htmlpage.Count(in.Clusters, "cluster"), htmlpage.Count(in.Pools, "pool"),
		htmlpage.Count(in.ControlPlaneMachines, "machine"), htmlpage.Integer(in.Machines-in.ControlPlaneMachines))
}

func describeRuns(in whatif.Inputs) string {
	text := fmt.Sprintf("%s of each variant, with the same seeds: %d to %d", htmlpage.Count(in.Runs, "run"), in.Seed, in.Seed+uint64(max(in.Runs-1, 0)))
	if in.Runs == 1 {
		text = fmt.Sprintf("1 run of each variant, with seed %d", in.Seed)
	}
	if in.Faults {
		text += ", with faults switched on"
	}
	if in.Verified {
		text += "; invariants were checked after every step"
	}
	return text
}

func computeHeadlines(in whatif.Inputs, v whatif.Result) []headline {
	took := headline{Label: "Duration", Value: "not completed", Note: "no run ended"}
	if d := v.Duration; d != nil {
		took.Value, took.Note = htmlpage.Bind(htmlpage.Duration(d.P50Seconds)), "of the only completed run"
		switch {
		case d.Runs <= 1:
		case mostUnfinished(in, v):
			took.Note = fmt.Sprintf("median of only %s of %s", htmlpage.Integer(d.Runs), htmlpage.Bind(htmlpage.Count(in.Runs, "run")))
		case isFixed(whatif.Report{Variants: []whatif.Result{v}}):
			took.Note = "in every completed run"
		default:
			took.Note = fmt.Sprintf("median; p10 %s, p90 %s", htmlpage.Bind(htmlpage.Duration(d.P10Seconds)), htmlpage.Bind(htmlpage.Duration(d.P90Seconds)))
		}
	}
	m := v.Median
	return []headline{
		took,
		{"Runs completed", htmlpage.Bind(htmlpage.Integer(v.Outcomes.Completed) + " of " + htmlpage.Integer(in.Runs)), describeUnfinished(v.Outcomes)},
		{"Machines in flight", htmlpage.Integer(m.MaxInFlight), "at most, at once"},
		{"Machines down", htmlpage.Bind(htmlpage.Hours(m.DownSeconds) + " h"), "added up over all machines"},
		{"Disruptions", htmlpage.Integer(m.Updated + m.Replaced), fmt.Sprintf("%s updated, %s replaced", htmlpage.Bind(htmlpage.Integer(m.Updated)), htmlpage.Bind(htmlpage.Integer(m.Replaced)))},
		{"API writes", htmlpage.Integer(m.Writes.Engine + m.Writes.Others), fmt.Sprintf("%s by Windlass, %s by Cluster API (estimated)", htmlpage.Bind(htmlpage.Integer(m.Writes.Engine)), htmlpage.Bind(htmlpage.Integer(m.Writes.Others)))},
	}
}

func describeUnfinished(o whatif.Outcomes) string {
	var said []string
	for _, c := range []struct {
		n    int
		what string
	}{{o.Stuck, "stuck"}, {o.GivenUp, "given up"}, {o.Violated, "violated an invariant"}} {
		if c.n > 0 {
			said = append(said, htmlpage.Integer(c.n)+" "+c.what)
		}
	}
	if len(said) == 0 {
		return "none got stuck"
	}
	return htmlpage.List(said)
}

// computeWarnings are what a reader must not miss.
func computeWarnings(r whatif.Report) []string {
	var said []string
	for _, v := range r.Variants {
		if n := v.Outcomes.Violated; n > 0 {
			said = append(said, fmt.Sprintf("%s: an invariant did not hold in %s. Do not upgrade this way.", htmlpage.Name(v.Name), htmlpage.Count(n, "run")))
		}
	}
	if first := r.Variants[0]; first.Outcomes.Stuck+first.Outcomes.GivenUp > 0 {
		text := fmt.Sprintf("%s: %s of %s did not end.", htmlpage.Name(first.Name), htmlpage.Integer(first.Outcomes.Stuck+first.Outcomes.GivenUp), htmlpage.Count(r.Inputs.Runs, "run"))
		if len(first.Unfinished) > 0 && first.Unfinished[0].Why != "" {
			text += " The most frequent reason: " + htmlpage.Words(first.Unfinished[0].Why)
		}
		said = append(said, text)
	}
	if text := describeSurvivors(r.Inputs, r.Variants[0]); text != "" {
		said = append(said, htmlpage.Name(r.Variants[0].Name)+": "+text)
	}
	return said
}

func computeVariant(r whatif.Report, v whatif.Result, i int, colours palette) variant {
	id := fmt.Sprintf("variant%d", i)
	shown := variant{
		ID: id, Name: htmlpage.Name(v.Name), Description: htmlpage.Words(v.Description), Open: i == 0, Sentence: describePath(v.Median),
		Trouble:  v.Outcomes.Stuck+v.Outcomes.GivenUp+v.Outcomes.Violated > 0,
		Outcome:  fmt.Sprintf("%s of %s completed, %s", htmlpage.Integer(v.Outcomes.Completed), htmlpage.Count(r.Inputs.Runs, "run"), describeUnfinished(v.Outcomes)),
		Timeline: computeTimeline(id+"t", v.Median, r.Inputs.Clusters, colours), Versions: computeVersions(id+"v", v.Median, colours), InFlight: computeInFlight(id+"f", v.Median),
		MedianNote: describeMedian(v),
	}
	for _, version := range v.Median.Charts.Versions {
		shown.Legend = append(shown.Legend, htmlpage.LegendEntry{Class: colours.class(version), Name: htmlpage.Name(version)})
	}
	if slices.ContainsFunc(v.Median.Charts.Timeline, func(row whatif.Row) bool { return row.Kind == whatif.Wait }) {
		shown.Legend = append(shown.Legend, htmlpage.LegendEntry{Class: "hold", Name: "held by gates"})
	}
	shown.Unfinished = describeReasons(v)
	if text := describeSurvivors(r.Inputs, v); text != "" {
		shown.Unfinished = append(shown.Unfinished, text)
	}
	if v.Violation != nil {
		shown.Violation = &violation{Text: describeViolation(*v.Violation)}
		for _, line := range v.Violation.Trace {
			shown.Violation.Trace = append(shown.Violation.Trace, htmlpage.Words(line))
		}
	}
	for _, s := range v.Median.CriticalPath.Shares[:min(len(v.Median.CriticalPath.Shares), maxWorst)] {
		shown.Shares = append(shown.Shares, shareCells(s, r.Inputs.Clusters))
	}
	worst := selectWorst(v.Median.Groups)
	for _, g := range worst {
		shown.Worst = append(shown.Worst, groupCells(g, r.Inputs.Clusters))
	}
	if more := len(v.Median.Groups) - len(worst); more > 0 {
		shown.MoreGroups = fmt.Sprintf("%s more are in the report as JSON.", htmlpage.Integer(more))
	}
	return shown
}

func describeMedian(v whatif.Result) string {
	if v.Duration == nil {
		return fmt.Sprintf("No run was completed. Charts and tables show the first one, with seed %d.", v.Median.Seed)
	}
	return fmt.Sprintf("Charts and tables show the run with the median duration, that of seed %d: %s.", v.Median.Seed, htmlpage.Bind(htmlpage.Duration(v.Median.DurationSeconds)))
}

// selectWorst returns the groups whose machines were down for the longest; none where no machine ever was.
func selectWorst(groups []whatif.Group) []whatif.Group {
	sorted := slices.Clone(groups)
	slices.SortStableFunc(sorted, func(a, b whatif.Group) int {
		return cmp.Or(cmp.Compare(htmlpage.Finite(b.DownSeconds), htmlpage.Finite(a.DownSeconds)), cmp.Compare(b.Disruptions, a.Disruptions))
	})
	if len(sorted) == 0 || htmlpage.Finite(sorted[0].DownSeconds) == 0 {
		return nil
	}
	return sorted[:min(len(sorted), maxWorst)]
}

// isFixed reports whether the completed runs of each variant take the same time, as it is shown, so that
// percentiles would repeat it.
func isFixed(r whatif.Report) bool {
	return !slices.ContainsFunc(r.Variants, func(v whatif.Result) bool {
		if v.Duration == nil {
			return false
		}
		d, shown := *v.Duration, htmlpage.Duration(v.Duration.P50Seconds)
		return slices.ContainsFunc([]float64{d.P10Seconds, d.P90Seconds, d.MinSeconds, d.MaxSeconds},
			func(s float64) bool { return htmlpage.Duration(s) != shown })
	})
}

func durationHead(r whatif.Report) []string {
	if isFixed(r) {
		return []string{"Variant", "Completed", "Duration"}
	}
	return []string{"Variant", "Completed", "p10", "p50", "p90", "Shortest", "Longest"}
}

// durationCells are a row of the table of how long variants take, costCells of that of what they cost.
func durationCells(r whatif.Report, v whatif.Result) []string {
	cells := []string{htmlpage.Name(v.Name), htmlpage.Bind(htmlpage.Integer(v.Outcomes.Completed) + " of " + htmlpage.Integer(r.Inputs.Runs))}
	if v.Duration == nil {
		for range len(durationHead(r)) - len(cells) {
			cells = append(cells, "\u2013")
		}
		return cells
	}
	d := *v.Duration
	if isFixed(r) {
		return append(cells, htmlpage.Bind(htmlpage.Duration(d.P50Seconds)))
	}
	for _, s := range []float64{d.P10Seconds, d.P50Seconds, d.P90Seconds, d.MinSeconds, d.MaxSeconds} {
		cells = append(cells, htmlpage.Bind(htmlpage.Duration(s)))
	}
	return cells
}

func costCells(v whatif.Result) []string {
	m := v.Median
	return []string{
		htmlpage.Name(v.Name), htmlpage.Hours(m.DownSeconds), htmlpage.Integer(m.Updated), htmlpage.Integer(m.Replaced), htmlpage.Integer(m.Drained), htmlpage.Integer(m.Failed), htmlpage.Integer(m.MaxInFlight),
		htmlpage.Integer(m.Writes.Engine + m.Writes.Others), htmlpage.Decimal(htmlpage.Finite(m.Writes.EnginePerMachine) + htmlpage.Finite(m.Writes.OthersPerMachine)),
	}
}

func shareCells(s whatif.Share, clusters int) []string {
	what := map[whatif.Kind]string{whatif.ControlPlane: "control planes", whatif.Pool: "pools", whatif.Wait: "waiting"}[s.Kind]
	limit := htmlpage.Words(s.Limit)
	if s.Groups == 1 && s.Kind != whatif.Wait {
		what = groupName(s.LongestCluster, s.Longest, clusters)
	} else if s.Kind != whatif.Wait {
		what = htmlpage.Bind(htmlpage.Integer(s.Groups)) + " " + what
	}
	return []string{what, limit, htmlpage.Bind(htmlpage.Duration(s.Seconds)), htmlpage.Bind(htmlpage.Percent(s.Share))}
}

func groupName(cluster, group string, clusters int) string {
	if clusters > 1 {
		return htmlpage.Name(cluster) + ": " + htmlpage.Name(group)
	}
	return htmlpage.Name(group)
}

// groupCells are a row of the table of the groups that are disrupted most.
func groupCells(g whatif.Group, clusters int) []string {
	return []string{
		groupName(g.Cluster, g.Group, clusters), htmlpage.Integer(g.Machines), htmlpage.Integer(g.Stops), htmlpage.Integer(g.Updated), htmlpage.Integer(g.Replaced), htmlpage.Integer(g.Drained), htmlpage.Integer(g.Failed),
		htmlpage.Integer(g.MaxDown), htmlpage.Hours(g.DownSeconds),
	}
}
