package view

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/windlass-dev/windlass/pkg/plan"
)

const (
	// tableWidth is how wide a table may get, in characters: it must be readable in a 100-column terminal.
	tableWidth = 100
	// minNoteWidth is what remains for notes when operations are very long; then the table is wider than tableWidth.
	minNoteWidth = 30
	// maxOperationWidth is where operations with long lists of groups are wrapped.
	maxOperationWidth = 40
	// shownGroups is how many names a list of groups may have before it is cut to one less and a count.
	shownGroups = 4
)

func writeTable(w io.Writer, c Chain) error {
	if len(c.Plan.Operations) == 0 {
		return writeText(w, nothingToDo(c)+"\n")
	}
	notes := selectNotes(c.Plan)
	rows := make([][]string, 0, len(notes))
	for i, o := range c.Plan.Operations {
		rows = append(rows, []string{describeOperation(o, c.HideGroups), notes[i]})
	}
	var text strings.Builder
	operationWidth := columnWidth("Operation", rows, 0, maxOperationWidth)
	// Two columns with a space on each side need three bars.
	noteWidth := columnWidth("Note", rows, 1, max(tableWidth-7-operationWidth, minNoteWidth))
	formatRows(&text, []string{"Operation", "Note"}, rows, []int{operationWidth, noteWidth})
	text.WriteString("\n")
	for _, line := range wrap(computeSummary(c).sentence(), tableWidth) {
		text.WriteString(line + "\n")
	}
	if c.ShowUpdates {
		formatUpdatesOf(&text, c)
	}
	if c.Explained {
		formatExplanation(&text, c.Explanation)
	}
	return writeText(w, text.String())
}

func nothingToDo(c Chain) string {
	if len(c.Plan.Groups) == 0 {
		return fmt.Sprintf("Nothing to do: the control plane is at %s.", c.Target)
	}
	return fmt.Sprintf("Nothing to do: the control plane and all workers are at %s.", c.Target)
}

// describeOperation is an operation in the words of the proposal's table.
func describeOperation(o plan.Operation, hideGroups bool) string {
	if o.Kind == plan.ControlPlaneUpgrade {
		return fmt.Sprintf("CP upgrade %s -> %s", o.From, o.To)
	}
	text := fmt.Sprintf("Workers upgrade %s -> %s", o.From, o.To)
	if hideGroups || len(o.Groups) == 0 {
		return text
	}
	return fmt.Sprintf("%s (%s)", text, describeGroups(o.Groups))
}

func describeGroups(names []string) string {
	printed := make([]string, 0, shownGroups)
	for i, name := range names {
		if len(names) > shownGroups && i == shownGroups-1 {
			return fmt.Sprintf("%s and %d more", strings.Join(printed, ", "), len(names)-i)
		}
		printed = append(printed, printable(name))
	}
	return strings.Join(printed, ", ")
}

// printable replaces what would not be seen, or what a terminal would act on: names may come from unchecked files.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, s)
}

func formatExplanation(text *strings.Builder, lines []plan.ExplanationLine) {
	topics := make([]topic, 0, len(lines))
	for _, l := range lines {
		topics = append(topics, topic{name: string(l.Topic), text: l.Text})
	}
	formatTopics(text, "Why", topics)
}

// topic is something that is said about one thing.
type topic struct{ name, text string }

// maxTopicWidth is where long names are wrapped.
const maxTopicWidth = 30

func formatTopics(text *strings.Builder, title string, topics []topic) {
	text.WriteString("\n" + title + ":\n")
	width := 0
	for _, t := range topics {
		for _, part := range wrap(t.name, maxTopicWidth) {
			width = max(width, utf8.RuneCountInString(part))
		}
	}
	for _, t := range topics {
		names, parts := wrap(t.name, maxTopicWidth), wrap(printable(t.text), tableWidth-width-4)
		for i := range max(len(names), len(parts)) {
			name, part := "", ""
			if i < len(names) {
				name = names[i]
			}
			if i < len(parts) {
				part = parts[i]
			}
			text.WriteString(strings.TrimRight("  "+pad(name, width)+"  "+part, " ") + "\n")
		}
	}
}

// WriteNotes writes what a reader of a table should know besides, one paragraph for each note. A note is a sentence without
// a capital or full stop.
func WriteNotes(w io.Writer, notes []string) error {
	var text strings.Builder
	for _, n := range notes {
		text.WriteString("\n")
		for _, line := range wrap("Note: "+printable(n)+".", tableWidth) {
			text.WriteString(line + "\n")
		}
	}
	return writeText(w, text.String())
}

// formatRows writes a table in the way of Markdown: a cell that is wrapped goes on in the next line.
func formatRows(text *strings.Builder, head []string, rows [][]string, widths []int) {
	formatRow(text, head, widths)
	for _, width := range widths {
		text.WriteString("|" + strings.Repeat("-", width+2))
	}
	text.WriteString("|\n")
	for _, row := range rows {
		formatRow(text, row, widths)
	}
}

func formatRow(text *strings.Builder, cells []string, widths []int) {
	wrapped := make([][]string, len(cells))
	height := 1
	for i, cell := range cells {
		wrapped[i] = wrap(cell, widths[i])
		height = max(height, len(wrapped[i]))
	}
	for line := range height {
		for i, parts := range wrapped {
			part := ""
			if line < len(parts) {
				part = parts[line]
			}
			text.WriteString("| " + pad(part, widths[i]) + " ")
		}
		text.WriteString("|\n")
	}
}

// columnWidth is the width of a column's longest line after wrapping.
func columnWidth(head string, rows [][]string, column, most int) int {
	width := utf8.RuneCountInString(head)
	for _, row := range rows {
		for _, line := range wrap(row[column], most) {
			width = max(width, utf8.RuneCountInString(line))
		}
	}
	return width
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// wrap breaks a text between words; only a word that is longer than the width is cut.
func wrap(text string, width int) []string {
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
