package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	// root is the repository, relative to this package.
	root = "../.."
	// outDir is where copies and executables are written, relative to root. A copy has a fixed
	// path, because Go compiles all packages again when the path of a module changes.
	outDir = "bin/upstream"

	upstreamModule = "sigs.k8s.io/cluster-api"
	ownModule      = "github.com/windlass-dev/windlass"
	// reconcilers is the folder in upstream's module with the packages whose tests run.
	reconcilers = "core/reconcilers"
)

// packages are the names of the packages below reconcilers whose tests run.
var packages = []string{"machinedeployment", "machineset"}

// goModule is what `go mod download` and `go list -m` print about a module.
type goModule struct{ Path, Version, Dir, Error string }

// findVersion returns the version of Cluster API that the product uses.
func findVersion(ctx context.Context) (string, error) {
	out, err := runGo(ctx, root, nil, "list", "-m", "-json", upstreamModule)
	if err != nil {
		return "", err
	}
	var found goModule
	if err := json.Unmarshal(out, &found); err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", upstreamModule, err)
	}
	return found.Version, nil
}

// download returns the folders of Cluster API and of its API module in the module cache.
func download(ctx context.Context, version string) (core, api string, err error) {
	var dirs []string
	for _, path := range []string{upstreamModule, upstreamModule + "/api"} {
		out, runErr := runGo(ctx, root, nil, "mod", "download", "-json", path+"@"+version)
		// The command describes a failure on its standard output too.
		var found goModule
		if err := errors.Join(json.Unmarshal(out, &found), runErr); err != nil && found.Error == "" {
			return "", "", fmt.Errorf("reading where %s is: %w", path, err)
		}
		if found.Error != "" {
			return "", "", fmt.Errorf("downloading %s@%s: %s. Fix: choose a version since v1.14.0; older "+
				"ones have their API in the same module", path, version, found.Error)
		}
		dirs = append(dirs, found.Dir)
	}
	return dirs[0], dirs[1], nil
}

// runGo runs the go command in dir and returns its standard output. The error has its last lines of
// standard error.
func runGo(ctx context.Context, dir string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Env = append(cmd.Env, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		const most = 4000
		text := strings.TrimSpace(stderr.String())
		text = text[max(0, len(text)-most):]
		return out, fmt.Errorf("running go %s in %s: %w: %s", strings.Join(args, " "), dir, err, text)
	}
	return out, nil
}

// buildServers builds the executables etcd and kube-apiserver and returns their folder.
func buildServers(ctx context.Context) (string, error) {
	dir, err := filepath.Abs(filepath.Join(root, outDir, "envtest"))
	if err != nil {
		return "", fmt.Errorf("finding the folder of the servers: %w", err)
	}
	server := filepath.Join(dir, "kube-apiserver")
	module := filepath.Join(root, "lab", "parts")
	if _, err := runGo(ctx, module, nil, "build", "-ldflags", "-s -w", "-o", server, "./envtest"); err != nil {
		return "", err
	}
	err = os.Symlink("kube-apiserver", filepath.Join(dir, "etcd"))
	if err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("linking etcd to kube-apiserver: %w", err)
	}
	return dir, nil
}

// lock waits until no other process works in outDir. The lock ends with unlock or with the process.
func lock() (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(root, outDir), 0o750); err != nil {
		return nil, fmt.Errorf("making %s: %w", outDir, err)
	}
	file, err := os.OpenFile(filepath.Join(root, outDir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of %s: %w", outDir, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", outDir, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
