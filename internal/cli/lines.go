package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
)

// LinePrinter says what happens: to out as lines, or as JSON with one object a line; to notes what
// people should know besides.
type LinePrinter struct {
	Out, Notes io.Writer
	JSON       bool
}

// Note prints a note for people.
func (p LinePrinter) Note(note string) {
	fmt.Fprintf(p.Notes, "windlass: note: %s\n", text.Printable(note))
}

// NoteAll prints notes for people.
func (p LinePrinter) NoteAll(notes []string) {
	for _, note := range notes {
		p.Note(note)
	}
}

// Print prints a text to Out.
func (p LinePrinter) Print(text string) error {
	if _, err := io.WriteString(p.Out, text); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// OneLine makes a text one line that a terminal shows as it is.
func OneLine(buffer string) string { return text.Printable(strings.Join(strings.Fields(buffer), " ")) }

// Indented puts something before each line of a text.
func Indented(buffer, before string) string {
	var b strings.Builder
	for line := range strings.Lines(buffer) {
		b.WriteString(strings.TrimRight(before+text.Printable(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")), " ") + "\n")
	}
	return b.String()
}

// WriteLine writes a value as one line of JSON.
func WriteLine(out io.Writer, value any) error {
	if err := json.NewEncoder(out).Encode(value); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}
