package page

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/htmlpage"
	"github.com/windlass-dev/windlass/internal/simulate/whatif"
	"github.com/windlass-dev/windlass/internal/text"
)

// Table writes what matters of a report for people: how long the upgrade takes, the variants beside each
// other, where their time goes, and what is disrupted as configured. Lines are at most width characters wide; 0 means no
// limit.
func Table(w io.Writer, width int, r whatif.Report) error {
	out := &tableWriter{width: width}
	if len(r.Variants) > 0 {
		out.paragraph(describeVerdict(r))
		out.WriteString("\n")
	}
	out.paragraph(describeUpgrade(r.Inputs) + ": " + describeFleet(r.Inputs) + ". " + describeRuns(r.Inputs) + ".")
	if len(r.Variants) > 0 {
		out.variants(r)
		out.unfinished(r)
		out.first(r)
	}
	if len(r.Assumptions) > 0 {
		out.WriteString("\nAssumed:\n")
		for _, a := range r.Assumptions {
			out.item(htmlpage.Sentence(a))
		}
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

// describeVerdict answers how long the upgrade takes as configured, and which other variant is faster.
func describeVerdict(r whatif.Report) string {
	first, runs := r.Variants[0], r.Inputs.Runs
	completed := first.Outcomes.Completed
	var verdict string
	switch {
	case completed == 0 && runs == 1:
		verdict = "The upgrade does not complete in the only run."
	case first.Duration == nil || completed == 0:
		verdict = "The upgrade does not complete in any run."
	case runs == 1:
		verdict = fmt.Sprintf("The upgrade takes %s in the only run.", htmlpage.Duration(first.Duration.P50Seconds))
	case isFixed(r) && completed == runs:
		verdict = fmt.Sprintf("The upgrade takes %s in every run.", htmlpage.Duration(first.Duration.P50Seconds))
	case completed < runs:
		verdict = fmt.Sprintf("The upgrade does not complete in %s of %s. Completed runs take %s (median); 9 of 10 of them take at most %s.",
			htmlpage.Integer(runs-completed), htmlpage.Count(runs, "run"), htmlpage.Duration(first.Duration.P50Seconds), htmlpage.Duration(first.Duration.P90Seconds))
	default:
		verdict = fmt.Sprintf("The upgrade takes %s (median); 9 of 10 runs take at most %s.",
			htmlpage.Duration(first.Duration.P50Seconds), htmlpage.Duration(first.Duration.P90Seconds))
	}
	fastest := slices.MinFunc(r.Variants, func(a, b whatif.Result) int {
		return cmp.Compare(median(a, runs), median(b, runs))
	})
	if m := median(fastest, runs); m < median(first, runs) {
		verdict += fmt.Sprintf(" The fastest variant, %s, takes %s.", htmlpage.Name(fastest.Name), htmlpage.Duration(m))
	}
	return verdict
}

// median is the median duration in seconds; infinite for a variant of which a run does not complete.
func median(v whatif.Result, runs int) float64 {
	if v.Duration == nil || v.Outcomes.Completed < runs {
		return math.Inf(1)
	}
	return v.Duration.P50Seconds
}

// tableWriter collects the lines of a table.
type tableWriter struct {
	strings.Builder
	width int
}

func (out *tableWriter) variants(r whatif.Report) {
	var durations, costs [][]string
	for _, v := range r.Variants {
		durations, costs = append(durations, durationCells(r, v)), append(costs, costCells(v))
	}
	out.WriteString("\n")
	head := durationHead(r)
	head = head[:min(len(head), 5)]
	out.figures(head, durations, []int{0, 1, 2, 3, 4}[:len(head)])
	out.WriteString("\n")
	out.figures([]string{"Variant", "Down (h)", "Updated", "Replaced", "Failed", "In flight", "API writes", "Per machine"}, costs, []int{0, 1, 2, 3, 5, 6, 7, 8})
	var survivors, paths []string
	for _, v := range r.Variants {
		if s := describeSurvivors(r.Inputs, v); s != "" {
			survivors = append(survivors, htmlpage.Name(v.Name)+": "+s)
		}
		if s := describePath(v.Median); s != "" {
			paths = append(paths, htmlpage.Name(v.Name)+": "+s)
		}
	}
	out.items("Few runs were completed:", survivors)
	out.items("Where the time goes:", paths)
}

// figures writes a table of some of the cells of each row, because there is no room for all.
func (out *tableWriter) figures(head []string, rows [][]string, shown []int) {
	selected := make([][]string, 0, len(rows))
	for _, row := range rows {
		cells := make([]string, 0, len(shown))
		for _, i := range shown {
			cells = append(cells, strings.ReplaceAll(plain(row[i]), "\u2013", "-"))
		}
		selected = append(selected, cells)
	}
	text.WriteFigures(&out.Builder, head, selected, out.width)
}

func (out *tableWriter) unfinished(r whatif.Report) {
	var said []string
	for _, v := range r.Variants {
		for _, reason := range describeReasons(v) {
			said = append(said, htmlpage.Name(v.Name)+": "+reason)
		}
		if v.Violation != nil {
			said = append(said, htmlpage.Name(v.Name)+": an invariant did not hold. "+plain(describeViolation(*v.Violation)))
		}
	}
	out.items("Not completed:", said)
}

// first is about the first variant.
func (out *tableWriter) first(r whatif.Report) {
	groups := selectWorst(r.Variants[0].Median.Groups)
	if len(groups) == 0 {
		return
	}
	rows := make([][]string, 0, len(groups))
	for _, g := range groups {
		rows = append(rows, groupCells(g, r.Inputs.Clusters))
	}
	fmt.Fprintf(out, "\nGroups whose machines are down for the longest, %s, seed %d:\n", htmlpage.Name(r.Variants[0].Name), r.Variants[0].Median.Seed)
	out.figures([]string{"Group", "Machines", "Stops", "Updated", "Replaced", "Failed", "At most", "Down (h)"}, rows, []int{0, 1, 2, 3, 4, 6, 7, 8})
}

func (out *tableWriter) paragraph(s string) {
	for _, line := range text.Wrap(plain(s), out.width) {
		out.WriteString(line + "\n")
	}
}

// items writes a list under a heading, if there is anything in it.
func (out *tableWriter) items(heading string, said []string) {
	if len(said) == 0 {
		return
	}
	out.WriteString("\n" + heading + "\n")
	for _, s := range said {
		out.item(s)
	}
}

func (out *tableWriter) item(s string) {
	before := "- "
	width := out.width
	if width > 0 {
		width = max(width-len(before), 1)
	}
	for _, line := range text.Wrap(plain(s), width) {
		out.WriteString(before + line + "\n")
		before = "  "
	}
}

// plain makes a text fit for a terminal: spaces may break lines there, and nothing acts on it.
func plain(s string) string { return text.Printable(strings.ReplaceAll(s, "\u00a0", " ")) }
