// Package programs builds the programs of this repository for tests, once in a process.
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

// FolderVariable is the environment variable with the folder of programs that are built already.
// Build then builds nothing.
const FolderVariable = "WINDLASS_PROGRAMS"

// folder and runtimeFolder are those that Build and BuildRuntime have made; empty if they have not
// run.
var folder, runtimeFolder string

// Build builds the programs from the sources of the working directory. Tests call Remove at their
// end.
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

// Runtime is the name of the container runtime's program.
const Runtime = "windlass-cri"

// BuildRuntime builds windlass-cri, the container runtime of test hosts, as Build does the others.
var BuildRuntime = sync.OnceValues(func() (string, error) {
	if built := os.Getenv(FolderVariable); built != "" {
		return filepath.Join(built, Runtime), nil
	}
	source, err := devplane.FindSource(".")
	if err != nil {
		return "", err
	}
	if runtimeFolder, err = os.MkdirTemp("", "windlass-programs-"); err != nil {
		return "", err
	}
	target := filepath.Join(runtimeFolder, Runtime)
	return target, Compile(context.Background(), filepath.Join(source, "lab"), target, "./cmd/"+Runtime)
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

// TestExtension is the package of Cluster API's own test extension, and TestExtensionModule the
// folder of the module that pins it, in the sources.
const (
	TestExtension       = "sigs.k8s.io/cluster-api/test/extension"
	TestExtensionModule = "lab/parts"
)

// Remove removes what Build and BuildRuntime have made.
func Remove() {
	for _, made := range []string{folder, runtimeFolder} {
		if made != "" {
			_ = os.RemoveAll(made) // the system cleans its temporary directory anyway
		}
	}
}
