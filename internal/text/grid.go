package text

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable replaces what would not be seen, or what a terminal would act on: names may come from unchecked files.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, s)
}

// WriteTable writes a table of at most width columns; 0 means no limit. Every row has as many cells as
// the head. Without a limit no cell is wrapped, so that every row is one line.
func WriteTable(text *strings.Builder, head []string, rows [][]string, width int) {
	all := append([][]string{head}, rows...)
	writeAll(text, head, rows, fitColumns(all, width), len(head))
}

// WriteFigures is WriteTable with all columns but the first aligned at the right, and with heads that
// are wrapped between words where the width is limited.
func WriteFigures(text *strings.Builder, head []string, rows [][]string, width int) {
	all := append([][]string{head}, rows...)
	if width > 0 {
		words := make([]string, len(head))
		for i, h := range head {
			words[i] = longestWord(h)
		}
		all[0] = words
	}
	writeAll(text, head, rows, fitColumns(all, width), 1)
}

// longestWord returns the longest of a text's words, the first of several.
func longestWord(s string) string {
	return slices.MaxFunc(append(strings.Fields(s), ""), func(a, b string) int {
		return cmp.Compare(utf8.RuneCountInString(a), utf8.RuneCountInString(b))
	})
}

// minColumn is the width that no column falls below, however narrow the table must be. Wrapped names
// of fewer characters are unreadable. Only a table that then fits has columns of narrowColumn.
const minColumn, narrowColumn = 8, 6

// fitColumns returns the width of each column. Columns are as wide as their content. Where they exceed
// the limit, the widest share what the others leave.
func fitColumns(rows [][]string, limit int) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 1)
		}
	}
	if limit <= 0 {
		return widths
	}
	// Each column has a bar and two spaces, and the last bar closes the row.
	free := limit - 3*len(widths) - 1
	for i, width := range balanceColumns(rows, widths, capColumns(widths, free)) {
		// Words end where they end: a wrapped column is as wide as its longest line.
		longest := 1
		for _, row := range rows {
			for _, line := range Wrap(row[i], width) {
				longest = max(longest, utf8.RuneCountInString(line))
			}
		}
		widths[i] = longest
	}
	return widths
}

// capColumns lowers the widest columns to one width, so that all together take at most free columns if
// that leaves minColumn, or else narrowColumn, to each.
func capColumns(widths []int, free int) []int {
	rest := slices.Sorted(slices.Values(widths))
	least, wide, narrow := minColumn, 0, 0
	for _, width := range rest {
		wide += min(width, minColumn)
		narrow += min(width, narrowColumn)
	}
	if wide > free && narrow <= free {
		least = narrowColumn
	}
	limit := 0
	for i, width := range rest {
		limit = max(free/(len(rest)-i), least)
		if width > limit {
			break
		}
		free -= width
	}
	capped := slices.Clone(widths)
	for i := range capped {
		capped[i] = min(capped[i], limit)
	}
	return capped
}

// Tables of more rows keep the first widths that fit: to balance them would take too long.
const maxBalanced = 60

// balanceColumns moves width from one column to another where that makes the table cheaper. natural are
// the widths that columns need at most.
func balanceColumns(rows [][]string, natural, widths []int) []int {
	if len(rows) > maxBalanced || slices.Equal(natural, widths) {
		return widths
	}
	best := tableCost(rows, widths)
	for i := range widths {
		for j := range widths {
			from := widths
			most := min(from[i]-minColumn, natural[j]-from[j])
			for moved := 1; i != j && moved <= most; moved++ {
				next := slices.Clone(from)
				next[i] -= moved
				next[j] += moved
				if cost := tableCost(rows, next); cost < best {
					widths, best = next, cost
				}
			}
		}
	}
	return widths
}

// cutCost is how many lines a reader would rather see than one word that is cut.
const cutCost = 4

// tableCost counts the lines of a table, and adds cutCost for each word that is cut.
func tableCost(rows [][]string, widths []int) int {
	cost := 0
	for _, row := range rows {
		height := 1
		for i, cell := range row {
			height = max(height, len(Wrap(cell, widths[i])))
			for word := range strings.FieldsSeq(cell) {
				if utf8.RuneCountInString(word) > widths[i] {
					cost += cutCost
				}
			}
		}
		cost += height
	}
	return cost
}

// writeAll aligns columns at the right from one on.
func writeAll(text *strings.Builder, head []string, rows [][]string, widths []int, right int) {
	formatRow(text, head, widths, right)
	for _, width := range widths {
		text.WriteString("|" + strings.Repeat("-", width+2))
	}
	text.WriteString("|\n")
	for _, row := range rows {
		formatRow(text, row, widths, right)
	}
}

func formatRow(text *strings.Builder, cells []string, widths []int, right int) {
	wrapped := make([][]string, len(cells))
	height := 1
	for i, cell := range cells {
		wrapped[i] = Wrap(cell, widths[i])
		height = max(height, len(wrapped[i]))
	}
	for line := range height {
		for i, parts := range wrapped {
			part := ""
			if line < len(parts) {
				part = parts[line]
			}
			padded := Pad(part, widths[i])
			if i >= right {
				padded = strings.Repeat(" ", len(padded)-len(part)) + part
			}
			text.WriteString("| " + padded + " ")
		}
		text.WriteString("|\n")
	}
}

// Pad fills a text up with spaces.
func Pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// Wrap breaks a text between words into lines of at most width characters; 0 means no limit. Only a word
// that is longer than the width is cut.
func Wrap(text string, width int) []string {
	if width <= 0 {
		width = math.MaxInt
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		for utf8.RuneCountInString(word) > width {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			runes := []rune(word)
			lines, word = append(lines, string(runes[:width])), string(runes[width:])
		}
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
