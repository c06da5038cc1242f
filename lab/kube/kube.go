// Package kube builds the programs of Kubernetes that run on the hosts of tests: kubeadm as it is released, and a kubelet
// with nothing beneath it. The folder minors is one module with a file of requirements for each minor, which names the exact version. A kubectl is
// built with the dev plane, of the dev plane's version.
package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	// moduleDir is the module of the programs, in the repository.
	moduleDir = "lab/kube/minors"
	// newestMinor is the one that the module's go.mod requires. Another minor has a file such as v1.35.mod.
	newestMinor = "v1.36"
)

// module is the module of the programs with the requirements of one minor.
type module struct{ dir, requirements string }

func newModule(repository string, minor version.Minor) (module, error) {
	m := module{dir: filepath.Join(repository, moduleDir), requirements: minor.String() + ".mod"}
	if minor.String() == newestMinor {
		m.requirements = "go.mod"
	}
	if _, err := os.Stat(filepath.Join(m.dir, m.requirements)); err != nil {
		return module{}, fmt.Errorf("building Kubernetes %s: no file in %s requires it: %w", minor, moduleDir, err)
	}
	return m, nil
}

// run runs a command of Go that reads the module's requirements.
func (m module) run(ctx context.Context, command string, args ...string) (string, error) {
	return goCommand(ctx, m.dir, append([]string{command, "-modfile=" + m.requirements}, args...)...)
}

// Binaries are the programs of one version, ready to be copied to a host. They need nothing but Linux.
type Binaries struct {
	// Version is the exact one, as in v1.36.3. The programs report it, and so does the Node.
	Version version.Version
	// Dir holds the programs, and the names below are paths in it.
	Dir string
	// Kubeadm is what Kubernetes releases.
	Kubeadm string
	// Kubelet keeps a Node, without a container runtime, cgroups or mounts. A copy that is named containerd serves a stand-in of a
	// container runtime at the endpoint in its only argument, by default unix:///run/containerd/containerd.sock.
	Kubelet string
}

// Build returns the programs of one minor, which the module must know. It builds what is missing or older than its sources, into
// .windlass/kube in the repository. The first build of a minor compiles Kubernetes, which takes minutes. Processes that build at the
// same time wait for each other.
func Build(ctx context.Context, repository string, minor version.Minor) (Binaries, error) {
	m, err := newModule(repository, minor)
	if err != nil {
		return Binaries{}, err
	}
	out, err := m.run(ctx, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return Binaries{}, err
	}
	exact, err := version.Parse(strings.TrimSpace(out))
	if err != nil {
		return Binaries{}, fmt.Errorf("reading the version of k8s.io/kubernetes in %s: %w", m.requirements, err)
	}
	dir, err := filepath.Abs(filepath.Join(repository, ".windlass", "kube", exact.String()))
	if err != nil {
		return Binaries{}, fmt.Errorf("finding the folder of the programs: %w", err)
	}
	binaries := Binaries{
		Version: exact, Dir: dir,
		Kubeadm: filepath.Join(dir, "kubeadm"), Kubelet: filepath.Join(dir, "kubelet"),
	}
	unlock, err := lock(ctx, dir)
	if err != nil {
		return Binaries{}, err
	}
	defer unlock()
	return binaries, build(ctx, m, binaries)
}

// build leaves a stamp beside the programs, last of all, so that a build that was cut short is made again.
func build(ctx context.Context, m module, binaries Binaries) error {
	flags := linkerFlags(binaries.Version)
	inputs, err := readInputs(ctx, m, flags)
	if err != nil {
		return err
	}
	stamp := filepath.Join(binaries.Dir, "inputs")
	last, err := os.ReadFile(stamp)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading what the programs were built from: %w", err)
	}
	if string(last) == inputs && complete(binaries) {
		return nil
	}
	// As the dev plane is built, to share Go's cache with it: see its build.go.
	_, err = m.run(ctx, "build", "-buildvcs=false", "-ldflags", flags, "-o", binaries.Dir+string(filepath.Separator),
		"k8s.io/kubernetes/cmd/kubeadm", "./kubelet")
	if err != nil {
		return err
	}
	if err := os.WriteFile(stamp, []byte(inputs), 0o600); err != nil {
		return fmt.Errorf("noting what the programs were built from: %w", err)
	}
	return nil
}

func complete(binaries Binaries) bool {
	for _, path := range []string{binaries.Kubeadm, binaries.Kubelet} {
		if _, err := os.Stat(path); err != nil {
			return false
		}
	}
	return true
}

// linkerFlags sets the version that the programs report, and leaves out debug tables.
func linkerFlags(v version.Version) string {
	const base = "-X k8s.io/component-base/version."
	return fmt.Sprintf("-s -w %sgitVersion=%s %sgitMajor=%d %sgitMinor=%d", base, v, base, v.Minor().Major, base, v.Minor().Minor)
}

// readInputs is a digest of everything that the programs are made from; go.sum stands for the modules.
func readInputs(ctx context.Context, m module, flags string) (string, error) {
	toolchain, err := goCommand(ctx, m.dir, "env", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n%s\n", toolchain, flags)
	for _, name := range []string{m.requirements, strings.TrimSuffix(m.requirements, ".mod") + ".sum", "kubelet/main.go"} {
		data, err := os.ReadFile(filepath.Join(m.dir, name))
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
			return nil, errors.Join(fmt.Errorf("waiting for another build: %w", context.Cause(ctx)), file.Close())
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
		return "", fmt.Errorf("running go %s in %s: %w: %s", args[0], module, err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
