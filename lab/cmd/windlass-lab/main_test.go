package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/windlass-dev/windlass/test/scripts"
)

// TestMain makes the test binary behave as windlass-lab when a script calls it by that name.
func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"windlass-lab": main}) }

// TestScripts runs the command line as users do. The command `exits CODE COMMAND ARGS...` runs a
// command that must exit with that code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"), RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": scripts.Exits},
	})
}
