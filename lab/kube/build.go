package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	// modulesDir has the modules of the programs, in the repository.
	modulesDir = "lab/kube"
	// outputDir gets the programs, in the repository.
	outputDir = ".windlass/kube"
)

// module is a module of programs with the requirements of one version. The newest version has the
// file go.mod; each other one has a file of its own, such as v1.35.mod.
type module struct {
	dir, requirements string
	// version is that of the module's subject, such as Kubernetes.
	version version.Version
}

// findModule returns the module in a folder of modulesDir with the requirements of subject at a
// version. The name is that of the version's file of requirements, and matches is true for the
// version that it must have.
func findModule(
	ctx context.Context, repository, folder, subject, name string, matches func(version.Version) bool,
) (module, error) {
	m := module{dir: filepath.Join(repository, modulesDir, folder), requirements: name + ".mod"}
	if _, err := os.Stat(filepath.Join(m.dir, m.requirements)); errors.Is(err, fs.ErrNotExist) {
		m.requirements = "go.mod"
	}
	var err error
	if m.version, err = m.find(ctx, subject); err != nil {
		return module{}, err
	}
	if !matches(m.version) {
		return module{}, fmt.Errorf("building %s: no file in %s/%s requires %s. Fix: add %s.mod",
			subject, modulesDir, folder, name, name)
	}
	return m, nil
}

// find returns the version of subject that the module requires.
func (m module) find(ctx context.Context, subject string) (version.Version, error) {
	exact, err := m.run(ctx, "list", "-m", "-f", "{{.Version}}", subject)
	if err != nil {
		return version.Version{}, err
	}
	v, err := version.Parse(strings.TrimSpace(exact))
	if err != nil {
		return v, fmt.Errorf("reading the version of %s in %s: %w", subject, m.requirements, err)
	}
	return v, nil
}

// run runs a command of Go that reads the module's requirements.
func (m module) run(ctx context.Context, command string, args ...string) (string, error) {
	return goCommand(ctx, m.dir, append([]string{command, "-modfile=" + m.requirements}, args...)...)
}

// target is programs that are built together.
type target struct {
	module
	// output is the folder that gets the programs.
	output string
	// packages are those of the programs, by the program's name.
	packages map[string]string
	// variables are set by the linker.
	variables map[string]string
}

// newTarget makes the programs of a module a target whose output folder has a name.
func newTarget(
	repository, name string, m module, packages, variables map[string]string,
) (target, error) {
	output, err := filepath.Abs(filepath.Join(repository, outputDir, name))
	if err != nil {
		return target{}, fmt.Errorf("finding the folder of the programs: %w", err)
	}
	return target{module: m, output: output, packages: packages, variables: variables}, nil
}

func (t target) path(program string) string { return filepath.Join(t.output, program) }

// build builds what is missing or older than its sources. It leaves a stamp beside the programs,
// last of all, so that a build that was cut short is made again. Processes that build at the same
// time wait for each other.
func (t target) build(ctx context.Context) error {
	unlock, err := lock(ctx, t.output)
	if err != nil {
		return err
	}
	defer unlock()
	inputs, err := t.readInputs(ctx)
	if err != nil {
		return err
	}
	last, err := os.ReadFile(t.path(stampFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading what the programs were built from: %w", err)
	}
	if string(last) == inputs && t.complete() {
		return nil
	}
	for _, program := range slices.Sorted(maps.Keys(t.packages)) {
		// As the dev plane is built, to share Go's cache with it: see its build.go.
		_, err := t.run(ctx, "build", "-buildvcs=false", "-ldflags", t.linkerFlags(),
			"-o", t.path(program), t.packages[program])
		if err != nil {
			return err
		}
	}
	if err := os.WriteFile(t.path(stampFile), []byte(inputs), 0o600); err != nil {
		return fmt.Errorf("noting what the programs were built from: %w", err)
	}
	return nil
}

const stampFile = "inputs"

func (t target) complete() bool {
	for program := range t.packages {
		if _, err := os.Stat(t.path(program)); err != nil {
			return false
		}
	}
	return true
}

// linkerFlags set the variables, and leave out debug tables.
func (t target) linkerFlags() string {
	flags := []string{"-s", "-w"}
	for _, name := range slices.Sorted(maps.Keys(t.variables)) {
		flags = append(flags, "-X", name+"="+t.variables[name])
	}
	return strings.Join(flags, " ")
}

// readInputs is a digest of everything that the programs are made from; go.sum stands for the
// modules.
func (t target) readInputs(ctx context.Context) (string, error) {
	toolchain, err := goCommand(ctx, t.dir, "env", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return "", err
	}
	names := []string{t.requirements, strings.TrimSuffix(t.requirements, ".mod") + ".sum"}
	for _, program := range slices.Sorted(maps.Keys(t.packages)) {
		if pkg := t.packages[program]; strings.HasPrefix(pkg, ".") {
			names = append(names, filepath.Join(pkg, "main.go"))
		}
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n%s\n%q\n", toolchain, t.linkerFlags(), t.packages)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(t.dir, name))
		if err != nil {
			return "", fmt.Errorf("reading what the programs are built from: %w", err)
		}
		fmt.Fprintf(hash, "%s %d\n", name, len(data))
		hash.Write(data)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

const lockPollPeriod = 100 * time.Millisecond

// lock makes dir and keeps other builds out of it.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("making the folder of the programs: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the build lock: %w", err)
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", file.Name(), err), file.Close())
		}
		select {
		case <-ctx.Done():
			err := fmt.Errorf("waiting for another build: %w", context.Cause(ctx))
			return nil, errors.Join(err, file.Close())
		case <-time.After(lockPollPeriod):
		}
	}
}

func goCommand(ctx context.Context, module string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = module
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", fmt.Errorf("running go %s: %w", args[0], context.Cause(ctx))
	}
	if err != nil {
		return "", fmt.Errorf("running go %s in %s: %w: %s",
			args[0], module, err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
