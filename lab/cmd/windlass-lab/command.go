package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/lab/internal/programs"
)

// commandName returns how a shell in the working directory calls a program: by its name if PATH
// leads to it, otherwise by its path.
func commandName(program string) string {
	name := filepath.Base(program)
	if found, err := exec.LookPath(name); err == nil && sameFile(found, program) {
		return name
	}
	here, err := os.Getwd()
	if err != nil {
		return program
	}
	below, err := filepath.Rel(here, program)
	if err != nil || !filepath.IsLocal(below) {
		return program
	}
	if below == name {
		return "./" + name
	}
	return below
}

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// ownCommands returns how a shell in the working directory calls this program, and windlass beside
// it.
func ownCommands() programs.Paths {
	self, err := os.Executable()
	if err != nil {
		return programs.Paths{Windlass: "windlass", Lab: "windlass-lab"}
	}
	windlass := programs.In(filepath.Dir(self)).Windlass
	return programs.Paths{Windlass: commandName(windlass), Lab: commandName(self)}
}

// labCommand is how to call another command for the same plane.
func labCommand(cmd *cobra.Command) string {
	words := []string{ownCommands().Lab}
	for _, name := range []string{flagSource, flagStateDir, flagAssetsDir, flagWindlass} {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
			words = append(words, "--"+name+"="+flag.Value.String())
		}
	}
	return strings.Join(words, " ")
}
