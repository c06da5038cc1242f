package view

import (
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
)

// Screen says how reports are laid out for people. It has no influence on JSON and YAML.
type Screen struct {
	// Width is the number of columns; 0 means no limit. Files and pipes have none, so that each row of a
	// table is one line there and no name is wrapped.
	Width int
	// All includes what is in order, what has ended, and internal details.
	All bool
	// Color allows ANSI colors. They only repeat what words say.
	Color bool
}

// tone is how good something is.
type tone int

const (
	neutral tone = iota
	good
	fair
	bad
)

// paint colors one line of text.
func (s Screen) paint(t tone, line string) string {
	if !s.Color {
		return line
	}
	switch t {
	case good:
		return "\x1b[32m" + line + "\x1b[0m"
	case fair:
		return "\x1b[33m" + line + "\x1b[0m"
	case bad:
		return "\x1b[31m" + line + "\x1b[0m"
	case neutral:
	}
	return line
}

// verdict writes the sentences that answer the question of a report.
func (s Screen) verdict(buffer *strings.Builder, t tone, words string) {
	for _, line := range text.Wrap(text.Printable(words), s.Width) {
		buffer.WriteString(s.paint(t, line) + "\n")
	}
}

// table writes a table.
func (s Screen) table(buffer *strings.Builder, head []string, rows [][]string) {
	text.WriteTable(buffer, head, rows, s.Width)
}

// paragraph writes words in lines as wide as the screen.
func (s Screen) paragraph(buffer *strings.Builder, words string) {
	s.indented(buffer, words, "")
}

// indented writes words in lines that begin with an indent.
func (s Screen) indented(buffer *strings.Builder, words, indent string) {
	for _, line := range text.Wrap(text.Printable(words), s.remaining(len(indent))) {
		buffer.WriteString(indent + line + "\n")
	}
}

// hanging writes words behind a first word; the lines that follow are indented as far.
func (s Screen) hanging(buffer *strings.Builder, first, words string) {
	indent := strings.Repeat(" ", len(first))
	for i, line := range text.Wrap(text.Printable(words), s.remaining(len(first))) {
		if i > 0 {
			first = indent
		}
		buffer.WriteString(first + line + "\n")
	}
}

// minTextWidth is what text beside something else gets on the narrowest screen.
const minTextWidth = 20

// remaining returns the width that is left beside so many columns; 0 means no limit.
func (s Screen) remaining(taken int) int {
	if s.Width <= 0 {
		return 0
	}
	return max(s.Width-taken, minTextWidth)
}
