package text

import (
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

// WriteTable writes a table whose columns are as wide as their content, up to a limit each. Every row has as many cells as the head.
func WriteTable(text *strings.Builder, head []string, rows [][]string, limits []int) {
	widths := make([]int, len(head))
	for i := range head {
		widths[i] = ColumnWidth(head[i], rows, i, limits[i])
	}
	WriteRows(text, head, rows, widths)
}

// WriteFigures is Write with all columns but the first aligned at the right, and heads that are wrapped as cells are.
func WriteFigures(text *strings.Builder, head []string, rows [][]string, limits []int) {
	widths := make([]int, len(head))
	for i := range head {
		widths[i] = ColumnWidth("", append(slices.Clone(rows), head), i, limits[i])
	}
	writeAll(text, head, rows, widths, 1)
}

// WriteRows writes a table whose columns have these widths, each at least 1. A cell that is wrapped goes on in the next line.
func WriteRows(text *strings.Builder, head []string, rows [][]string, widths []int) {
	writeAll(text, head, rows, widths, len(head))
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

// ColumnWidth is the width of a column's longest line after wrapping.
func ColumnWidth(head string, rows [][]string, column, most int) int {
	width := utf8.RuneCountInString(head)
	for _, row := range rows {
		for _, line := range Wrap(row[column], most) {
			width = max(width, utf8.RuneCountInString(line))
		}
	}
	return width
}

// Pad fills a text up with spaces.
func Pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// Wrap breaks a text between words; only a word that is longer than the width, which is at least 1, is cut.
func Wrap(text string, width int) []string {
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
