// Package programs builds the programs windlass and windlass-lab for tests, once in a process.
package programs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// Paths are the files of the two programs.
type Paths struct{ Windlass, Lab string }

// In returns the paths of the programs in a folder.
func In(folder string) Paths {
	return Paths{Windlass: filepath.Join(folder, "windlass"), Lab: filepath.Join(folder, "windlass-lab")}
}

// FolderVariable is the environment variable with the folder of programs that are built already. Build
// then builds nothing.
const FolderVariable = "WINDLASS_PROGRAMS"

// folder is the one that Build has made; it is empty if Build has not run.
var folder string

// Build builds the programs from the sources of the working directory. Tests call Remove at their end.
var Build = sync.OnceValues(func() (Paths, error) {
	if built := os.Getenv(FolderVariable); built != "" {
		return In(built), nil
	}
	source, err := devplane.FindSource(".")
	if err != nil {
		return Paths{}, err
	}
	if folder, err = os.MkdirTemp("", "windlass-programs-"); err != nil {
		return Paths{}, err
	}
	paths := In(folder)
	return paths, errors.Join(
		build(source, paths.Windlass, "./cmd/windlass"),
		build(filepath.Join(source, "lab"), paths.Lab, "./cmd/windlass-lab"),
	)
})

func build(module, target, pkg string) error {
	cmd := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-o", target, pkg)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", filepath.Base(target), err, out)
	}
	return nil
}

// Remove removes what Build has made.
func Remove() {
	if folder != "" {
		_ = os.RemoveAll(folder) // the system cleans its temporary directory anyway
	}
}
