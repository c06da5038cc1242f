package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// change returns the content of a mutant's file with the change.
func (m mutant) change(content string) (string, error) {
	if found := strings.Count(content, m.Old); found != 1 {
		return "", fmt.Errorf("%s has the text of the mutant %d times, want once: %q", m.File, found, m.Old)
	}
	return strings.Replace(content, m.Old, m.New, 1), nil
}

// run tests a requirement with its mutant, and reports whether the test or the live test notices. The files
// of the repository stay as they are: the compiler gets the changed file as an overlay, also for the
// programs that a live test builds.
func (r requirement) run(
	ctx context.Context, root string, test place, output *strings.Builder,
) (noticed bool, err error) {
	file := filepath.Join(root, r.Mutant.File)
	content, err := os.ReadFile(file)
	if err != nil {
		return false, fmt.Errorf("reading the file of mutant %s: %w", r.ID, err)
	}
	changed, err := r.Mutant.change(string(content))
	if err != nil {
		return false, fmt.Errorf("mutant %s: %w", r.ID, err)
	}
	folder, err := os.MkdirTemp("", "windlass-conformance")
	if err != nil {
		return false, fmt.Errorf("making a folder for mutant %s: %w", r.ID, err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // What is left is in the system's temporary folder.
	overlay, err := writeOverlay(folder, file, changed)
	if err != nil {
		return false, fmt.Errorf("writing mutant %s: %w", r.ID, err)
	}
	module, pattern := moduleOf(test.folder)
	command := func(arguments ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, "go", append(arguments, "./"+pattern)...)
		c.Dir, c.Stdout, c.Stderr = filepath.Join(root, module), output, output
		// A random test keeps no input that only the mutant fails. Without a folder of programs, live tests
		// build their own ones.
		c.Env = append(os.Environ(), "RAPID_NOFAILFILE=true", "RAPID_SHRINKTIME=1ms",
			"GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay, "WINDLASS_PROGRAMS=", "WINDLASS_E2E=1")
		return c
	}
	// A mutant that does not compile proves nothing.
	if err := command("test", "-vet=off", "-c", "-o", os.DevNull).Run(); err != nil {
		return false, fmt.Errorf("mutant %s cannot be tried: %w", r.ID, err)
	}
	err = command("test", "-vet=off", "-count=1", "-failfast", "-v", "-timeout", "30m", "-run", test.pattern()).Run()
	if _, failed := errors.AsType[*exec.ExitError](err); failed && ctx.Err() == nil {
		// A test that hangs, or programs that do not compile, prove nothing.
		said := output.String()
		if strings.Contains(said, "--- FAIL: "+test.name) && !strings.Contains(said, "panic: test timed out") {
			return true, nil
		}
		return false, fmt.Errorf("requirement %s: %s did not run to its end", r.ID, test)
	}
	switch said := output.String(); {
	case err != nil:
	case strings.Contains(said, "[no tests to run]"):
		err = fmt.Errorf("requirement %s: no test is named %s", r.ID, test)
	case strings.Contains(said, "--- SKIP"):
		err = fmt.Errorf("requirement %s: %s was skipped", r.ID, test)
	}
	return false, err
}

// writeOverlay writes what go's flag -overlay reads.
func writeOverlay(folder, file, content string) (overlay string, err error) {
	replacement := filepath.Join(folder, "mutant.go")
	if err := os.WriteFile(replacement, []byte(content), 0o600); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": {file: replacement}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// moduleOf returns the module of a folder of the repository, and the folder in it.
func moduleOf(folder string) (module, inside string) {
	for _, module := range []string{"lab/parts", "lab", "test/differential"} {
		if inside, found := strings.CutPrefix(folder+"/", module+"/"); found {
			return module, inside
		}
	}
	return ".", folder
}

// pattern is the value of go test's flag -run for a test.
func (p place) pattern() string {
	words := "^" + p.name + "$"
	if p.subtest == "" {
		return words
	}
	for part := range strings.SplitSeq(p.subtest, "/") {
		words += "/^" + regexp.QuoteMeta(strings.ReplaceAll(part, " ", "_")) + "$"
	}
	return words
}
