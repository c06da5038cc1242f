package main

import (
	"debug/buildinfo"
	"fmt"
	"path/filepath"
	"strings"
)

// notesFor returns the section of a version in a changelog, without its heading. A version with a suffix
// and without a section is a private build of commit.
func notesFor(changelog, version, commit string) (string, error) {
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
	if text == "" && strings.Contains(version, "-") {
		text = "Private build of commit " + commit + "."
	}
	if text == "" {
		return "", fmt.Errorf("CHANGELOG.md has no notes for %s. Fix: write them below a heading \"## %s\", "+
			"and leave \"## Unreleased\" for what comes after it; or build %s-NAME for yourself, which needs none",
			version, version, version)
	}
	return text + "\n", nil
}

// buildNote returns what the notes contain about the build of a release: with the same Go, the same commit
// results in the same programs.
func buildNote(o options) (string, error) {
	program := filepath.Join(o.output, o.platforms[0].binary())
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("reading which Go built %s: %w", program, err)
	}
	return fmt.Sprintf("\nBuilt by %s from commit %s.\n", info.GoVersion, o.commit), nil
}
