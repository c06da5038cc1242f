package view

import (
	"fmt"
	"io"
	"slices"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Format is a way to show a plan.
type Format string

// The formats that Write knows.
const (
	Table   Format = "table"
	JSON    Format = "json"
	YAML    Format = "yaml"
	Mermaid Format = "mermaid"
)

// Formats returns every format, the default first.
func Formats() []Format { return []Format{Table, JSON, YAML, Mermaid} }

// ParseFormat returns the format of that name if it is one of those, or an error that lists them.
func ParseFormat(name string, formats []Format) (Format, error) {
	if f := Format(name); slices.Contains(formats, f) {
		return f, nil
	}
	return "", fmt.Errorf("unknown format %q: choose one of %q", name, formats)
}

// Structured reports whether the format is read by programs, so that nothing but one document may be written.
func (f Format) Structured() bool { return f == JSON || f == YAML }

// Chain is a plan and what is needed to show it.
type Chain struct {
	Plan plan.Plan
	// ControlPlane is the version that the control plane has before the plan begins, Target the one it ends at.
	ControlPlane, Target version.Version
	// HideGroups leaves the names of groups out of the table and the diagram: nobody gave them a name.
	HideGroups bool
	// ControlPlaneUpdate and Updates, by the names of groups, say how machines will be updated; nil where nothing was asked.
	ControlPlaneUpdate *cover.Update
	Updates            map[string]cover.Update
	// ShowUpdates says that they are worth a place in the table: somebody has asked for updates in place.
	ShowUpdates bool
	// Risks are the known risks of its steps; Accepted reports whether one is accepted by its id, and nil means that none is.
	Risks    []risks.Found
	Accepted func(id string) bool
	// Explained says that an explanation was asked for, and Explanation is it.
	Explained   bool
	Explanation []plan.ExplanationLine
}

// Write shows a chain.
func Write(w io.Writer, f Format, s Screen, c Chain) error {
	return show(w, f, newPlanDocument(c), texts{
		table: func() string { return planTable(c, s) }, mermaid: func() string { return mermaid(c) },
	})
}

// texts make what a report is in the formats for people; nil where it is not shown in one.
type texts struct{ table, wide, mermaid func() string }

// show writes a report as a document, or as a text.
func show(w io.Writer, f Format, document any, t texts) error {
	var text func() string
	switch f {
	case JSON, YAML:
		return writeDocument(w, f, document)
	case Table:
		text = t.table
	case Wide:
		text = t.wide
	case Mermaid:
		text = t.mermaid
	case HTML:
	}
	if text == nil {
		return fmt.Errorf("format %q does not show this", f)
	}
	return writeText(w, text())
}

// writeText writes a finished text in one call, so that a failing writer leaves as little as it can.
func writeText(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
