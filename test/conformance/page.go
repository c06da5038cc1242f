package main

import (
	"fmt"
	"strings"
)

const introduction = `# Conformance

Windlass was created from five documents. This page lists what they demand, and for each demand the code that meets it,
the test that fails without that code, and the test that shows it beside real processes. "make conformance-mutants"
removes each one from the code and expects that its test fails. The page is generated from
the files in test/conformance/requirements.
`

// renderPage returns docs/conformance.md.
func renderPage(documents []document) string {
	var page strings.Builder
	page.WriteString(introduction)
	for _, d := range documents {
		fmt.Fprintf(&page, "\n## %s %s\n", d.Number, d.Title)
		for _, r := range d.Requirements {
			r.write(&page)
		}
	}
	return page.String()
}

func (r requirement) write(page *strings.Builder) {
	fmt.Fprintf(page, "\n### %s\n%s\n", r.ID, r.Text)
	if r.Deviation != "" {
		fmt.Fprintf(page, "\n**Deviation:** %s\n", r.Deviation)
	}
	page.WriteString("\n")
	for _, line := range []struct {
		name string
		at   place
	}{{"Code", r.Code}, {"Test", r.Test}, {"Live", r.Live}} {
		if line.at != (place{}) {
			fmt.Fprintf(page, "- %s: `%s`\n", line.name, line.at)
		}
	}
	if r.Mutant != nil {
		fmt.Fprintf(page, "- Mutant: in `%s`\n", r.Mutant.File)
	}
}
