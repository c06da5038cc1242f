package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/htmlpage"
	"github.com/windlass-dev/windlass/internal/simulate/whatif"
)

// The heights of charts, on the screen; the width of a plot is htmlpage.PlotWidth, stretched to what there is.
const (
	plotHeight = 220
	rowHeight  = 18
	// rowMargin is left free above and below bars.
	rowMargin = 2
	barHeight = rowHeight - 2*rowMargin
	maxLanes  = 4
)

// plot is a chart over time with machines upwards.
type plot struct {
	ID, Label string
	Height    int
	Time      []htmlpage.Tick
	Values    []htmlpage.Tick
	Layers    []layer
}

// layer is a shape of a plot. Line is drawn around it where it is set.
type layer struct{ Class, Path, Line, Title string }

// comparison is a chart of how long the variants take.
type comparison struct {
	Label string
	Time  []htmlpage.Tick
	Rows  []comparisonRow
}

type comparisonRow struct {
	Name, Value, Note, Label string
	First                    bool
	// Some says that there is something to draw.
	Some bool
	// Spreads says that runs take different times.
	Spreads                      bool
	P50, P10, P90, Spread, Title string
}

func computeComparison(r whatif.Report) comparison {
	end := 0.0
	for _, v := range r.Variants {
		if v.Duration != nil {
			end = max(end, htmlpage.Finite(v.Duration.P90Seconds), htmlpage.Finite(v.Duration.P50Seconds))
		}
	}
	isSame := isFixed(r)
	c := comparison{Time: htmlpage.TimeTicks(end), Label: "How long each variant takes: a bar to the median, and a line from the 10th to the 90th percentile."}
	for i, v := range r.Variants {
		row := comparisonRow{Name: htmlpage.Name(v.Name), First: i == 0, Value: "not completed"}
		if d := v.Duration; d != nil {
			low, high := htmlpage.Finite(d.P10Seconds), max(htmlpage.Finite(d.P90Seconds), htmlpage.Finite(d.P10Seconds))
			row.Spreads = !isSame
			row.Some, row.Value = true, htmlpage.Bind(htmlpage.Duration(d.P50Seconds))
			row.P50, row.P10, row.P90, row.Spread = htmlpage.Share(d.P50Seconds, end), htmlpage.Share(low, end), htmlpage.Share(high, end), htmlpage.Share(high-low, end)
			row.Title = fmt.Sprintf("%s: p10 %s, p50 %s, p90 %s over %s", htmlpage.Name(v.Name), htmlpage.Duration(low), htmlpage.Duration(d.P50Seconds), htmlpage.Duration(high), htmlpage.Count(d.Runs, "completed run"))
			if isSame {
				row.Title = fmt.Sprintf("%s: %s in each of %s", htmlpage.Name(v.Name), htmlpage.Duration(d.P50Seconds), htmlpage.Count(d.Runs, "completed run"))
			}
			row.Note = compareToFirst(r, i)
		}
		row.Label = htmlpage.Name(v.Name) + ": " + row.Value
		if row.Title != "" {
			row.Label = row.Title
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// compareToFirst says how a variant's median differs from that of the first one.
func compareToFirst(r whatif.Report, i int) string {
	first, d := r.Variants[0].Duration, r.Variants[i].Duration
	if i == 0 || first == nil || htmlpage.Finite(first.P50Seconds) == 0 {
		return ""
	}
	switch ratio := htmlpage.Finite(d.P50Seconds) / htmlpage.Finite(first.P50Seconds); {
	case ratio > 0.995 && ratio < 1.005:
		return "the same"
	case ratio > 10:
		return "more than 10 times as long"
	case ratio > 1:
		return htmlpage.Bind("+" + htmlpage.Number((ratio-1)*100) + " %")
	default:
		return htmlpage.Bind("\u2212" + htmlpage.Number((1-ratio)*100) + " %")
	}
}

// palette are the versions of a report, in the order of their colours.
type palette []string

// class is the class of a version's colour.
func (p palette) class(version string) string { return htmlpage.ColourClass(slices.Index(p, version)) }

func computeTimeline(id string, m whatif.Median, clusters int, colours palette) htmlpage.Timeline {
	end := endOf(m)
	t := htmlpage.Timeline{ID: id, Time: htmlpage.TimeTicks(end), Label: "When the machines of each group went to which version"}
	for _, row := range m.Charts.Timeline {
		t.Rows = append(t.Rows, computeTimelineRow(row, end, clusters, colours))
	}
	return t
}

// endOf is where the time axis of a run ends.
func endOf(m whatif.Median) float64 {
	end := htmlpage.Finite(m.DurationSeconds)
	for _, row := range m.Charts.Timeline {
		for _, bar := range row.Bars {
			end = max(end, htmlpage.Finite(bar.EndedSeconds))
		}
	}
	if n := len(m.Charts.InFlight); n > 0 {
		end = max(end, htmlpage.Finite(m.Charts.InFlight[n-1].AtSeconds))
	}
	if n := len(m.Charts.Machines); n > 0 {
		end = max(end, htmlpage.Finite(m.Charts.Machines[n-1].AtSeconds))
	}
	return end
}

func computeTimelineRow(row whatif.Row, end float64, clusters int, colours palette) htmlpage.TimelineRow {
	drawn := htmlpage.TimelineRow{Name: describeRow(row, clusters), Height: rowHeight}
	if row.Groups > 1 {
		drawn.Note = "\u00d7" + htmlpage.Bind(htmlpage.Integer(row.Groups))
	}
	lanes := computeLanes(row.Bars)
	n := 1
	for _, l := range lanes {
		n = max(n, l+1)
	}
	said := make([]string, 0, len(row.Bars))
	for i, bar := range row.Bars {
		began, ended := htmlpage.Finite(bar.BeganSeconds), max(htmlpage.Finite(bar.EndedSeconds), htmlpage.Finite(bar.BeganSeconds))
		title := describeBar(bar)
		class := "hold"
		if row.Kind != whatif.Wait {
			class = colours.class(bar.To)
		}
		drawn.Bars = append(drawn.Bars, htmlpage.TimelineBar{
			X: htmlpage.Share(began, end), Width: htmlpage.Share(ended-began, end), Class: class, Title: drawn.Name + ": " + title, Y: rowMargin + lanes[i]*barHeight/n, Height: barHeight / n,
		})
		said = append(said, title)
	}
	drawn.Label = drawn.Name + ": " + strings.Join(said[:min(len(said), 10)], "; ")
	return drawn
}

// computeLanes puts bars that overlap beside each other.
func computeLanes(bars []whatif.Bar) []int {
	lanes := make([]int, len(bars))
	var ends []float64
	for i, b := range bars {
		lane := slices.IndexFunc(ends, func(end float64) bool { return end <= htmlpage.Finite(b.BeganSeconds) })
		switch {
		case lane >= 0:
			ends[lane] = htmlpage.Finite(b.EndedSeconds)
		case len(ends) < maxLanes:
			lane, ends = len(ends), append(ends, htmlpage.Finite(b.EndedSeconds))
		default:
			lane = maxLanes - 1
		}
		lanes[i] = lane
	}
	return lanes
}

func describeRow(row whatif.Row, clusters int) string {
	cluster := ""
	if clusters > 1 {
		cluster = htmlpage.Name(row.Cluster)
		if row.LastCluster != row.Cluster {
			cluster += " \u2026 " + htmlpage.Name(row.LastCluster)
		}
	}
	var group string
	switch {
	case row.Kind == whatif.Wait:
		group = "held by gates"
	case row.Kind == whatif.ControlPlane && row.Groups > 1:
		group = "control planes"
	case row.LastCluster != row.Cluster:
		group = "pools"
	case row.LastName != row.Name:
		group = htmlpage.Name(row.Name) + " \u2026 " + htmlpage.Name(row.LastName)
	default:
		group = htmlpage.Name(row.Name)
	}
	if cluster == "" {
		return group
	}
	return cluster + ": " + group
}

func describeBar(b whatif.Bar) string {
	var said string
	when := fmt.Sprintf("from %s to %s", htmlpage.Duration(b.BeganSeconds), htmlpage.Duration(b.EndedSeconds))
	if b.Method == "" {
		said = "held " + when
	} else {
		said = "to " + htmlpage.Name(b.To)
		if b.From != "" {
			said = htmlpage.Name(b.From) + " to " + htmlpage.Name(b.To)
		}
		said += " " + when + describeMethod(b.Method)
	}
	if b.Limit != "" {
		said += ", " + htmlpage.Words(b.Limit)
	}
	return said
}

func describeMethod(m whatif.Method) string {
	switch m {
	case whatif.InPlace:
		return ", in place"
	case whatif.Replace:
		return ", replaced"
	case whatif.Mixed:
		return ", in place and replaced"
	default:
		return ""
	}
}

// computeVersions draws machines by version: the newest at the bottom, so that it rises with what is done.
func computeVersions(id string, m whatif.Median, colours palette) plot {
	charts, end := m.Charts, endOf(m)
	most := 0.0
	for _, p := range charts.Machines {
		most = max(most, sum(p.Counts))
	}
	values, top := htmlpage.MachineTicks(most)
	p := plot{ID: id, Height: plotHeight, Time: htmlpage.TimeTicks(end), Values: values, Label: "Machines by version over time"}
	if len(charts.Machines) == 0 {
		return p
	}
	for i, v := range charts.Versions {
		steps := make([]step, 0, len(charts.Machines))
		for _, point := range charts.Machines {
			steps = append(steps, step{htmlpage.Finite(point.AtSeconds), sum(point.Counts[min(i, len(point.Counts)):])})
		}
		path := drawSteps(steps, end, top)
		p.Layers = append(p.Layers, layer{Class: colours.class(v), Path: path.area, Title: describeVersion(charts, i)})
	}
	return p
}

func describeVersion(charts whatif.Charts, i int) string {
	count := func(p whatif.MachinesPoint) string {
		if i >= len(p.Counts) {
			return "0"
		}
		return htmlpage.Integer(p.Counts[i])
	}
	if len(charts.Machines) == 0 {
		return htmlpage.Name(charts.Versions[i])
	}
	return fmt.Sprintf("%s: %s machines at the beginning, %s at the end", htmlpage.Name(charts.Versions[i]), count(charts.Machines[0]), count(charts.Machines[len(charts.Machines)-1]))
}

func sum(counts []int) float64 {
	n := 0.0
	for _, c := range counts {
		n += htmlpage.Finite(float64(c))
	}
	return htmlpage.Finite(n)
}

// computeInFlight draws how many machines were in flight. Without layers there is nothing to draw, as in computeVersions.
func computeInFlight(id string, m whatif.Median) plot {
	end, most := endOf(m), htmlpage.Finite(float64(m.MaxInFlight))
	steps := make([]step, 0, len(m.Charts.InFlight))
	for _, point := range m.Charts.InFlight {
		steps = append(steps, step{htmlpage.Finite(point.AtSeconds), htmlpage.Finite(float64(point.Machines))})
		most = max(most, htmlpage.Finite(float64(point.Machines)))
	}
	values, top := htmlpage.MachineTicks(most)
	p := plot{ID: id, Height: plotHeight / 2, Time: htmlpage.TimeTicks(end), Values: values, Label: fmt.Sprintf("Machines in flight over time, at most %s", htmlpage.Number(most))}
	if path := drawSteps(steps, end, top); path.line != "" {
		p.Layers = []layer{{Class: "flight", Path: path.area, Line: path.line, Title: fmt.Sprintf("Machines in flight: at most %s at once", htmlpage.Number(most))}}
	}
	return p
}

// step is a value from a time on.
type step struct{ at, value float64 }

type drawn struct{ area, line string }

// drawSteps draws values that stay until the next one, and the last one until the end; on a plot of htmlpage.PlotWidth by htmlpage.PlotWidth units, which is stretched.
func drawSteps(steps []step, end, top float64) drawn {
	if len(steps) == 0 {
		return drawn{}
	}
	y := func(value float64) string { return htmlpage.Fixed((1-htmlpage.Part(value, top))*htmlpage.PlotWidth, 1) }
	var line strings.Builder
	first := steps[0]
	at, last := htmlpage.Unit(first.at, end), y(first.value)
	line.WriteString("M" + at + " " + last)
	from := at
	for _, s := range steps[1:] {
		if next := y(s.value); next != last {
			at, last = htmlpage.Unit(s.at, end), next
			line.WriteString("H" + at + "V" + last)
		}
	}
	line.WriteString("H" + htmlpage.Unit(end, end))
	return drawn{line: line.String(), area: line.String() + fmt.Sprintf("V%dH%sZ", htmlpage.PlotWidth, from)}
}
