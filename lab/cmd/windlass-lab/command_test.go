package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCommandName: what is printed can be copied into a shell.
func TestCommandName(t *testing.T) {
	clone, elsewhere := t.TempDir(), t.TempDir()
	program, other := filepath.Join(clone, "bin", "windlass"), filepath.Join(elsewhere, "windlass")
	if err := os.Mkdir(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{program, other} {
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ path, folder, want string }{
		"in PATH":                      {filepath.Dir(program), elsewhere, "windlass"},
		"in no folder of PATH":         {"", elsewhere, program},
		"below the working directory":  {"", clone, "bin/windlass"},
		"in the working directory":     {"", filepath.Dir(program), "./windlass"},
		"PATH leads to another":        {elsewhere, elsewhere, program},
		"PATH leads to another, below": {elsewhere, clone, "bin/windlass"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", c.path)
			t.Chdir(c.folder)
			if got := commandName(program); got != c.want {
				t.Errorf("with PATH=%s in %s, it is %q, want %q", c.path, c.folder, got, c.want)
			}
		})
	}
}
