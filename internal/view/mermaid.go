package view

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/windlass-dev/windlass/pkg/plan"
)

// mermaid draws the operations as a flowchart from top to bottom: one box for each, in order,
// control plane and workers in two colours that are readable on light and dark pages.
func mermaid(c Chain) string {
	var text strings.Builder
	text.WriteString("flowchart TB\n")
	if len(c.Plan.Operations) == 0 {
		fmt.Fprintf(&text, "  start([\"%s\"])\n", mermaidText(nothingToDo(c)))
		return text.String()
	}
	notes := selectNotes(c.Plan)
	fmt.Fprintf(&text, "  start([\"%s\"])\n", mermaidText(fmt.Sprintf("control plane at %s", c.ControlPlane)))
	for i, o := range c.Plan.Operations {
		class := "workers"
		if o.Kind == plan.ControlPlaneUpgrade {
			class = "controlPlane"
		}
		label := mermaidText(strings.Replace(describeOperation(o, c.HideGroups), " -> ", " → ", 1))
		if notes[i] != "" {
			label += "<br/>" + mermaidText(notes[i])
		}
		fmt.Fprintf(&text, "  step%d[\"%s\"]:::%s\n", i+1, label, class)
	}
	text.WriteString("  start")
	for i := range c.Plan.Operations {
		fmt.Fprintf(&text, " --> step%d", i+1)
	}
	text.WriteString("\n  classDef controlPlane fill:#326ce5,stroke:#1d4ea8,color:#ffffff\n")
	text.WriteString("  classDef workers fill:#f2a33a,stroke:#a86a14,color:#000000\n")
	return text.String()
}

// mermaidText writes everything but letters, digits and harmless marks as a character reference, which Mermaid spells
// with a hash sign. That keeps quotes, brackets, HTML and Mermaid's own words inside the label.
func mermaidText(s string) string {
	var text strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), strings.ContainsRune(" .,:+-_/()→", r):
			text.WriteRune(r)
		case unicode.IsPrint(r):
			fmt.Fprintf(&text, "#%d;", r)
		default:
			fmt.Fprintf(&text, "#%d;", unicode.ReplacementChar)
		}
	}
	return text.String()
}
