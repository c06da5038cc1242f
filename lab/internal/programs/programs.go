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
		Compile(context.Background(), source, paths.Windlass, "./cmd/windlass"),
		Compile(context.Background(), filepath.Join(source, "lab"), paths.Lab, "./cmd/windlass-lab"),
	)
})

// Compile builds one program into a file. pkg is its package, as the module in the folder names it.
func Compile(ctx context.Context, module, target, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", target, pkg)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// TestExtension is the package of Cluster API's own test extension, and TestExtensionModule the folder
// of the module that pins it, in the sources.
const (
	TestExtension       = "sigs.k8s.io/cluster-api/test/extension"
	TestExtensionModule = "lab/parts"
)

// Remove removes what Build has made.
func Remove() {
	if folder != "" {
		_ = os.RemoveAll(folder) // the system cleans its temporary directory anyway
	}
}
