package page

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/windlass-dev/windlass/internal/simulate/whatif"
	"github.com/windlass-dev/windlass/internal/text"
)

// tableWidth is how wide lines get, in characters: as in the other tables of windlass.
const tableWidth = 100

// nameWidth is how wide the first column of a table gets. It leaves room for numbers of up to seven digits in the others.
const nameWidth = 24

// Table writes what matters of a report for a terminal: the variants beside each other, where their time goes, and what is disrupted as configured.
func Table(w io.Writer, r whatif.Report) error {
	var out strings.Builder
	paragraph(&out, describeUpgrade(r.Inputs)+": "+describeFleet(r.Inputs)+". "+describeRuns(r.Inputs)+".")
	if len(r.Variants) > 0 {
		formatVariants(&out, r)
		formatUnfinished(&out, r)
		formatFirst(&out, r)
	}
	if len(r.Assumptions) > 0 {
		out.WriteString("\nAssumed:\n")
		for _, a := range r.Assumptions {
			item(&out, sentence(a))
		}
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

func formatVariants(out *strings.Builder, r whatif.Report) {
	var durations, costs [][]string
	for _, v := range r.Variants {
		durations, costs = append(durations, durationCells(r, v)), append(costs, costCells(v))
	}
	out.WriteString("\n")
	formatFigures(out, []string{"Variant", "Completed", "p10", "p50", "p90"}, durations, []int{0, 1, 2, 3, 4})
	out.WriteString("\n")
	formatFigures(out, []string{"Variant", "Down (h)", "Updated", "Replaced", "Failed", "In flight", "API writes", "Per machine"}, costs, []int{0, 1, 2, 3, 5, 6, 7, 8})
	var survivors, paths []string
	for _, v := range r.Variants {
		if s := describeSurvivors(r.Inputs, v); s != "" {
			survivors = append(survivors, name(v.Name)+": "+s)
		}
		if s := describePath(v.Median); s != "" {
			paths = append(paths, name(v.Name)+": "+s)
		}
	}
	items(out, "Few runs were completed:", survivors)
	items(out, "Where the time goes:", paths)
}

// formatFigures writes a table of some of the cells of each row, because there is no room for all.
func formatFigures(out *strings.Builder, head []string, rows [][]string, shown []int) {
	limits := make([]int, len(head))
	for i, h := range head {
		// Heads may be broken between words, numbers are not broken from their units.
		for word := range strings.FieldsSeq(h) {
			limits[i] = max(limits[i], len(word))
		}
		for _, row := range rows {
			limits[i] = max(limits[i], utf8.RuneCountInString(row[shown[i]]))
		}
	}
	limits[0] = nameWidth
	selected := make([][]string, 0, len(rows))
	for _, row := range rows {
		cells := make([]string, 0, len(shown))
		for _, i := range shown {
			cells = append(cells, strings.ReplaceAll(plain(row[i]), "\u2013", "-"))
		}
		selected = append(selected, cells)
	}
	text.WriteFigures(out, head, selected, limits)
}

func formatUnfinished(out *strings.Builder, r whatif.Report) {
	var said []string
	for _, v := range r.Variants {
		for _, reason := range describeReasons(v) {
			said = append(said, name(v.Name)+": "+reason)
		}
		if v.Violation != nil {
			said = append(said, name(v.Name)+": an invariant did not hold. "+plain(describeViolation(*v.Violation)))
		}
	}
	items(out, "Not completed:", said)
}

// formatFirst is about the first variant.
func formatFirst(out *strings.Builder, r whatif.Report) {
	groups := selectWorst(r.Variants[0].Median.Groups)
	if len(groups) == 0 {
		return
	}
	rows := make([][]string, 0, len(groups))
	for _, g := range groups {
		rows = append(rows, groupCells(g, r.Inputs.Clusters))
	}
	fmt.Fprintf(out, "\nGroups whose machines are down for the longest, %s, seed %d:\n", name(r.Variants[0].Name), r.Variants[0].Median.Seed)
	formatFigures(out, []string{"Group", "Machines", "Stops", "Updated", "Replaced", "Failed", "At most", "Down (h)"}, rows, []int{0, 1, 2, 3, 4, 6, 7, 8})
}

func paragraph(out *strings.Builder, s string) {
	for _, line := range text.Wrap(plain(s), tableWidth) {
		out.WriteString(line + "\n")
	}
}

// items writes a list under a heading, if there is anything in it.
func items(out *strings.Builder, heading string, said []string) {
	if len(said) == 0 {
		return
	}
	out.WriteString("\n" + heading + "\n")
	for _, s := range said {
		item(out, s)
	}
}

func item(out *strings.Builder, s string) {
	const indent = 2
	for i, line := range text.Wrap(plain(s), tableWidth-2*indent) {
		if i == 0 {
			out.WriteString("- " + line + "\n")
			continue
		}
		out.WriteString("  " + line + "\n")
	}
}

// plain makes a text fit for a terminal: spaces may break lines there, and nothing acts on it.
func plain(s string) string { return text.Printable(strings.ReplaceAll(s, "\u00a0", " ")) }
