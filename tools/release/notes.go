package main

import (
	"fmt"
	"strings"
)

// notesFor returns the section of a version in a changelog, without its heading.
func notesFor(changelog, version string) (string, error) {
	var notes []string
	inside := false
	for line := range strings.Lines(changelog) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			name, _, _ := strings.Cut(strings.TrimSpace(heading), " ")
			inside = name == version
			continue
		}
		if inside {
			notes = append(notes, line)
		}
	}
	text := strings.TrimSpace(strings.Join(notes, ""))
	if text == "" {
		return "", fmt.Errorf("CHANGELOG.md has no notes for %s. Fix: write them below a heading \"## %s\", "+
			"and leave \"## Unreleased\" for what comes after it", version, version)
	}
	return text + "\n", nil
}
