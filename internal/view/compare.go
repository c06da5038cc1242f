package view

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/windlass-dev/windlass/pkg/plan"
)

// sameOperation reports whether two operations do the same to the same groups, whatever the reason. The order of the
// groups within an operation does not count: an engine may move several at once.
func sameOperation(a, b plan.Operation) bool {
	return a.Kind == b.Kind && a.From == b.From && a.To == b.To &&
		slices.Equal(slices.Sorted(slices.Values(a.Groups)), slices.Sorted(slices.Values(b.Groups)))
}

// WriteComparison shows planned operations beside those that were observed, row by row, and reports whether they are the
// same.
func WriteComparison(w io.Writer, s Screen, planned, observed []plan.Operation) (same bool, err error) {
	same = true
	rows := make([][]string, 0, max(len(planned), len(observed)))
	for i := range max(len(planned), len(observed)) {
		row := []string{strconv.Itoa(i + 1), "", "", "missing"}
		if i < len(planned) {
			row[1] = describeOperation(planned[i], false)
		}
		if i < len(observed) {
			row[2], row[3] = describeOperation(observed[i], false), "not planned"
		}
		if i < len(planned) && i < len(observed) {
			row[3] = "differs"
			if sameOperation(planned[i], observed[i]) {
				row[3] = "equal"
			}
		}
		same = same && row[3] == "equal"
		rows = append(rows, row)
	}
	var buffer strings.Builder
	s.table(&buffer, []string{"#", "Planned", "Observed", "Result"}, rows)
	return same, writeText(w, buffer.String())
}
