package devplane

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/windlass-dev/windlass/lab/internal/devplane/internal/manifests"
)

// BuildOptions say what Build reads and where it writes.
type BuildOptions struct {
	// SourceDir is the repository, the directory that has lab/parts/go.mod; see [FindSource].
	SourceDir string
	// OutDir gets the binaries and the manifests. Default: bin/devplane in SourceDir.
	OutDir string
	// Progress, when set, is called with every step. Calls do not overlap.
	Progress func(Event)
}

// FindSource returns the nearest directory that has lab/parts/go.mod, from dir upwards.
func FindSource(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("making %q absolute: %w", dir, err)
	}
	for at := abs; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, moduleDir, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no %s/go.mod in %s or above it: run this in a clone of the repository, or name one", moduleDir, abs)
		}
	}
}

// DefaultOutDir is where Build writes unless told otherwise.
func DefaultOutDir(sourceDir string) string { return filepath.Join(sourceDir, "bin", "devplane") }

const (
	lockPollPeriod  = 100 * time.Millisecond
	buildErrorLines = 30
)

// Build makes the binaries of a plane and collects the manifests of Cluster API from the module cache. It does nothing when the
// output is newer than what it is made from. The first build compiles Kubernetes, which takes minutes; later ones use Go's cache. It is safe
// to build into one directory from several processes: they wait for each other.
func Build(ctx context.Context, opts BuildOptions) error {
	b := &builder{opts: opts, started: time.Now()}
	if b.opts.OutDir == "" {
		b.opts.OutDir = DefaultOutDir(opts.SourceDir)
	}
	b.module = filepath.Join(opts.SourceDir, moduleDir)
	if err := os.MkdirAll(filepath.Join(b.opts.OutDir, binDir), 0o750); err != nil {
		return fmt.Errorf("making the output directory: %w", err)
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return b.build(ctx)
}

type builder struct {
	opts    BuildOptions
	module  string
	started time.Time
}

func (b *builder) report(event Event) {
	if b.opts.Progress != nil {
		event.Elapsed = time.Since(b.started)
		b.opts.Progress(event)
	}
}

func (b *builder) lock(ctx context.Context) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(b.opts.OutDir, "build.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the build lock: %w", err)
	}
	for waiting := false; ; waiting = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", file.Name(), err), file.Close())
		}
		if !waiting {
			b.report(Event{Step: "lock", Message: "waiting for another build into " + b.opts.OutDir})
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for another build: %w", context.Cause(ctx)), file.Close())
		case <-time.After(lockPollPeriod):
		}
	}
}

func (b *builder) build(ctx context.Context) error {
	inputs, err := b.readInputs(ctx)
	if err != nil {
		return err
	}
	stampFile := filepath.Join(b.opts.OutDir, "build.json")
	if stamp, err := readStamp(stampFile); err == nil && stamp.current(inputs, b.opts.OutDir) {
		b.report(Event{Step: "build", Message: "binaries and manifests are up to date"})
		return nil
	}
	modules, err := b.modules(ctx)
	if err != nil {
		return err
	}
	flags, err := computeLinkerFlags(modules)
	if err != nil {
		return err
	}
	all := binaries()
	for i, binary := range all {
		step := Event{Step: binary.name, Message: "building " + binary.name, Index: i + 1, Total: len(all) + 1}
		b.report(step)
		if err := b.goBuild(ctx, binary, flags, step); err != nil {
			return err
		}
	}
	b.report(Event{Step: "manifests", Message: "collecting manifests", Index: len(all) + 1, Total: len(all) + 1})
	if err := b.collect(ctx, modules); err != nil {
		return err
	}
	stamp, err := makeStamp(inputs, b.opts.OutDir)
	if err != nil {
		return err
	}
	if err := writeJSON(stampFile, stamp); err != nil {
		return err
	}
	b.report(Event{Step: "build", Message: "binaries and manifests are built"})
	return nil
}

// readInputs hashes everything that the output is made from; go.sum stands for the modules.
func (b *builder) readInputs(ctx context.Context) (string, error) {
	version, err := b.goCommand(ctx, "env", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return "", err
	}
	files := map[string][]byte{"go env": version}
	paths := []string{filepath.Join(b.module, "go.mod"), filepath.Join(b.module, "go.sum")}
	sources, err := filepath.Glob(filepath.Join(b.module, "*", "*.go"))
	if err != nil {
		return "", fmt.Errorf("listing the sources of %s: %w", b.module, err)
	}
	for _, path := range append(paths, sources...) {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("reading what the plane is built from: %w", err)
		}
		files[strings.TrimPrefix(path, b.module)] = data
	}
	return computeInputs(files), nil
}

// goCommand runs the go command in the dev plane's module and returns its output.
func (b *builder) goCommand(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // G204: the callers' arguments are constants
	cmd.Dir = b.module
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("building the plane needs the go command: install Go, see https://go.dev/dl: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// modules finds the modules that manifests and version numbers come from, and downloads them when needed.
func (b *builder) modules(ctx context.Context) (map[string]module, error) {
	b.report(Event{Step: "modules", Message: "finding modules"})
	paths := []string{kubernetesModule, clusterAPIModule, providerModule}
	out, err := b.goCommand(ctx, append([]string{"mod", "download", "-json"}, paths...)...)
	if err != nil {
		return nil, err
	}
	modules := map[string]module{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var m module
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("decoding the list of modules: %w", err)
		}
		modules[m.Path] = m
	}
	for _, path := range paths {
		if modules[path].Dir == "" {
			return nil, fmt.Errorf("module %s is not available: go mod download did not say where it is", path)
		}
	}
	return modules, nil
}

// goBuild builds one binary, and reports the packages that are compiled for it on the way.
func (b *builder) goBuild(ctx context.Context, binary binary, flags string, step Event) error {
	// No stamp of the version control system: it fails where git distrusts the directory's owner. No -trimpath: it would make every package in Go's cache a different one, and the cache is shared with other builds.
	out := filepath.Join(b.opts.OutDir, binDir, binary.name)
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-buildvcs=false", "-ldflags", flags, "-o", out, binary.pkg) //nolint:gosec // G204: no shell, and the versions in flags come from go.mod
	cmd.Dir = b.module
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("building %s: %w", binary.name, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("building %s: %w", binary.name, err)
	}
	var tail []string
	for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
		line := scanner.Text()
		if tail = append(tail, line); len(tail) > buildErrorLines {
			tail = tail[1:]
		}
		step.Message = fmt.Sprintf("building %s: %s", binary.name, line)
		b.report(step)
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("building %s: %w", binary.name, context.Cause(ctx))
		}
		return fmt.Errorf("building %s: %w:\n%s", binary.name, err, strings.Join(tail, "\n"))
	}
	return nil
}

// collect writes the manifests of every manager, with the feature gates that it knows.
func (b *builder) collect(ctx context.Context, modules map[string]module) error {
	out := assets{KubernetesVersion: modules[kubernetesModule].Version, ClusterAPIVersion: modules[clusterAPIModule].Version}
	for _, source := range managerSources() {
		dir := filepath.Join(modules[source.module].Dir, filepath.FromSlash(source.config))
		binary := filepath.Join(b.opts.OutDir, binDir, source.name)
		help, err := exec.CommandContext(ctx, binary, "--help").CombinedOutput() //nolint:gosec // G204: it was built a moment ago
		gates := manifests.FeatureGates(string(help))
		// Some managers end with a status other than 0 after --help; what counts is that the text is there.
		if len(gates) == 0 {
			return fmt.Errorf("%s --help lists no feature gates: %w", source.name, errors.Join(err, errors.New("unexpected output")))
		}
		manager := managerAssets{Name: source.name, FeatureGates: gates}
		if manager.CRDs, err = readCRDs(filepath.Join(dir, "crd", "bases")); err != nil {
			return err
		}
		webhooks, err := os.ReadFile(filepath.Join(dir, "webhook", "manifests.yaml"))
		if err != nil {
			return fmt.Errorf("reading the webhooks of %s: %w", source.name, err)
		}
		if manager.Webhooks, err = manifests.ReadWebhooks(source.name, webhooks); err != nil {
			return fmt.Errorf("reading the webhooks of %s: %w", source.name, err)
		}
		if source.name == CoreManager {
			manager.Access, err = Render(filesys.MakeFsOnDisk(), filepath.Join(dir, "default"), AccessKinds...)
			if err != nil {
				return fmt.Errorf("reading the roles of %s: %w", source.name, err)
			}
		}
		out.Managers = append(out.Managers, manager)
	}
	return writeJSON(filepath.Join(b.opts.OutDir, assetsFile), out)
}

// readCRDs returns the CRDs of a directory, sorted by file name.
func readCRDs(dir string) ([]crdAsset, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no CRDs in %s: the module has another layout than expected", dir)
	}
	var out []crdAsset
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading a CRD: %w", err)
		}
		crd, err := manifests.CRD(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		asset, err := newCRDAsset(crd)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, asset)
	}
	return out, nil
}
