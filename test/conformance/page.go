package main

import (
	"fmt"
	"strings"
)

const introduction = `# Conformance

Windlass was created from five documents. This page lists what each of them demands: the code that meets it, the test
that fails without that code, and the test that shows it beside real processes (live). Where Windlass differs on
purpose, a deviation says how and why.

Each requirement with a mutant has a small change of the code that removes it. "make conformance-mutants" makes these
changes one after another, and fails where the test of the requirement still passes. ID=003 takes those of one document,
ID=003-07 one. The page is generated from the files in test/conformance/requirements.

| Document | Requirements | With a mutant | Live | Deviations |
|---|---|---|---|---|
`

// renderPage returns docs/conformance.md.
func renderPage(documents []document) string {
	var page strings.Builder
	page.WriteString(introduction)
	for _, d := range documents {
		d.writeSummary(&page)
	}
	for _, d := range documents {
		fmt.Fprintf(&page, "\n## %s %s\n", d.Number, d.Title)
		for _, r := range d.Requirements {
			r.write(&page)
		}
	}
	return page.String()
}

// writeSummary writes the row of the document in the table, with a link to each deviation.
func (d document) writeSummary(page *strings.Builder) {
	mutants, live := 0, 0
	var deviations []string
	for _, r := range d.Requirements {
		if r.Mutant != nil {
			mutants++
		}
		if r.Live != (place{}) {
			live++
		}
		if r.Deviation != "" {
			_, number, _ := strings.Cut(r.ID, "-")
			deviations = append(deviations, fmt.Sprintf("[%s](#%s)", number, r.ID))
		}
	}
	fmt.Fprintf(page, "| %s %s | %d | %d | %d | %s |\n",
		d.Number, d.Title, len(d.Requirements), mutants, live, strings.Join(deviations, " "))
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
