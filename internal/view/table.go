package view

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// shownGroups is how many names a list of groups may have before it is cut to one less and a count.
const shownGroups = 4

func planTable(c Chain, s Screen) string {
	if len(c.Plan.Operations) == 0 {
		return nothingToDo(c) + "\n"
	}
	notes := selectNotes(c.Plan)
	rows := make([][]string, 0, len(notes))
	for i, o := range c.Plan.Operations {
		rows = append(rows, []string{describeOperation(o, c.HideGroups), notes[i]})
	}
	var buffer strings.Builder
	s.paragraph(&buffer, fmt.Sprintf("The upgrade to %s takes %s", c.Target, computeSummary(c).describe()))
	buffer.WriteString("\n")
	s.table(&buffer, []string{"Operation", "Note"}, rows)
	formatRisks(&buffer, s, c)
	if c.ShowUpdates {
		formatUpdatesOf(&buffer, s, c)
	}
	if c.Explained {
		formatExplanation(&buffer, s, c.Explanation)
	}
	return buffer.String()
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
	some := text.Some{Most: shownGroups}
	if len(names) > shownGroups {
		some.Most--
	}
	for _, name := range names {
		some.Add(text.Printable(name))
	}
	return some.Join(", ")
}

func formatExplanation(buffer *strings.Builder, s Screen, lines []plan.ExplanationLine) {
	topics := make([]topic, 0, len(lines))
	for _, l := range lines {
		name := string(l.Topic)
		if l.Topic == plan.TopicFix {
			name = "Fix" // The value is older than the word.
		}
		topics = append(topics, topic{name: name, text: l.Text})
	}
	formatTopics(buffer, s, "Why", topics)
}

// topic is something that is said about one thing.
type topic struct{ name, text string }

// maxTopicWidth is where long names are wrapped.
const maxTopicWidth = 30

func formatTopics(buffer *strings.Builder, s Screen, title string, topics []topic) {
	buffer.WriteString("\n" + title + ":\n")
	nameWidth := 0
	if s.Width > 0 {
		nameWidth = max(min(maxTopicWidth, s.Width-minTextWidth-4), minTextWidth)
	}
	width := 0
	for _, t := range topics {
		for _, part := range text.Wrap(t.name, nameWidth) {
			width = max(width, utf8.RuneCountInString(part))
		}
	}
	for _, t := range topics {
		names, parts := text.Wrap(t.name, nameWidth), text.Wrap(text.Printable(t.text), s.remaining(width+4))
		for i := range max(len(names), len(parts)) {
			name, part := "", ""
			if i < len(names) {
				name = names[i]
			}
			if i < len(parts) {
				part = parts[i]
			}
			buffer.WriteString(strings.TrimRight("  "+text.Pad(name, width)+"  "+part, " ") + "\n")
		}
	}
}

// WriteNotes writes what a reader of a table should know besides, one paragraph for each note. A note is a sentence without
// a capital or full stop.
func WriteNotes(w io.Writer, s Screen, notes []string) error {
	var buffer strings.Builder
	for _, n := range notes {
		buffer.WriteString("\n")
		s.paragraph(&buffer, "Note: "+n+".")
	}
	return writeText(w, buffer.String())
}
