//go:build linux

package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// binary is the multi-call binary: its bytes, and a file in memory from which it is started. The file is never closed.
type binary struct {
	bytes []byte
	file  *os.File
}

func (b *binary) path() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), b.file.Fd())
}

// multiCall builds the binary, once in a process. The file that is started is one in memory: another test may build at the
// same time, and what runs cannot be written to.
var multiCall = sync.OnceValues(func() (*binary, error) {
	text, err := build(context.Background())
	if err != nil {
		return nil, fmt.Errorf("building the init of test hosts: %w", err)
	}
	fd, err := unix.MemfdCreate("windlass-host", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "windlass-host")
	if _, err := file.Write(text); err != nil {
		return nil, fmt.Errorf("writing the init of test hosts: %w", err)
	}
	// A file that is open for writing cannot be started.
	reader, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return &binary{bytes: text, file: reader}, nil
})

func build(ctx context.Context) ([]byte, error) {
	_, here, _, ok := runtime.Caller(0)
	if !ok {
		return nil, errors.New("the source's folder is not known")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(cache, "windlass")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(folder, "test-host.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	target := filepath.Join(folder, "test-host")
	command := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", target, ".")
	command.Dir = filepath.Join(filepath.Dir(here), "init")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, output)
	}
	return os.ReadFile(target)
}
