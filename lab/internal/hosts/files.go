//go:build linux

package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/wire"
)

// Root is the host's root folder as the test sees it: with the host's mounts while the power is on, the bare disk while it is
// off. Symbolic links below it that are absolute lead to the machine's files, so paths of the host's making are better left
// to Read and Write.
func (h *Host) Root() string {
	if pid := h.PID(); pid != 0 {
		return fmt.Sprintf("/proc/%d/root", pid)
	}
	return h.machine.path(h.machine.ready.Disk)
}

// Write writes a file, and makes the folders above it. It is executable where it is a program or a script ("#!"). A file that
// is there is replaced in place; one that runs cannot be. It works while the power is off, too.
func (h *Host) Write(path string, content []byte) {
	h.tb.Helper()
	h.check(h.write(path, content, modeOf(content)))
}

func modeOf(content []byte) fs.FileMode {
	if bytes.HasPrefix(content, []byte("#!")) || bytes.HasPrefix(content, []byte("\x7fELF")) {
		return 0o755
	}
	return 0o644
}

// Read returns a file's content, or an error as os.ReadFile does. It works while the power is off, too.
func (h *Host) Read(path string) ([]byte, error) {
	file, err := h.open(path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(file)
}

// Remove removes a file or an empty folder. One that is not there is no error.
func (h *Host) Remove(path string) {
	h.tb.Helper()
	parent, err := h.open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	h.check(err)
	defer func() { _ = parent.Close() }()
	err = unix.Unlinkat(int(parent.Fd()), filepath.Base(path), 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(int(parent.Fd()), filepath.Base(path), unix.AT_REMOVEDIR)
	}
	if !errors.Is(err, unix.ENOENT) {
		h.check(err)
	}
}

// Journal is what a unit, such as "kubelet", has written to its standard output and error, and what PID 1 said about it, since
// the host was made. It is kept outside the host's disk.
func (h *Host) Journal(unit string) string {
	h.tb.Helper()
	if filepath.Ext(unit) != ".service" {
		unit += ".service"
	}
	text, err := os.ReadFile(filepath.Join(h.machine.path(h.machine.ready.Journal), unit+".log"))
	if !errors.Is(err, fs.ErrNotExist) {
		h.check(err)
	}
	return string(text)
}

// open resolves the path, and every link in it, below the host's root.
func (h *Host) open(path string, flags uint64, mode fs.FileMode) (*os.File, error) {
	root, err := os.Open(h.Root())
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Mode: uint64(mode.Perm()), Resolve: unix.RESOLVE_IN_ROOT}
	fd, err := unix.Openat2(int(root.Fd()), path, &how)
	for errors.Is(err, unix.EAGAIN) {
		// Something on the machine was renamed or mounted meanwhile, so the kernel cannot tell whether the path stayed below the root.
		fd, err = unix.Openat2(int(root.Fd()), path, &how)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func (h *Host) write(path string, content []byte, mode fs.FileMode) error {
	if err := h.makeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	file, err := h.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Chmod(mode), file.Close())
}

func (h *Host) makeFolder(path string) error {
	made := "/"
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		parent, err := h.open(made, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		err = unix.Mkdirat(int(parent.Fd()), part, 0o755)
		_ = parent.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return &fs.PathError{Op: "mkdir", Path: filepath.Join(made, part), Err: err}
		}
		made = filepath.Join(made, part)
	}
	return nil
}

// link makes a symbolic link, in the place of what is there. The folders above it must be no links.
func (h *Host) link(target, path string) error {
	if err := h.makeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	outside := filepath.Join(h.Root(), path)
	if err := os.Remove(outside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(target, outside)
}

// clients are the programs that the multi-call binary is, besides PID 1.
var clients = []string{"/usr/bin/systemctl", "/usr/bin/systemd-run", "/usr/bin/journalctl"}

func (h *Host) installBinary() error {
	program, err := multiCall()
	if err != nil {
		return err
	}
	if err := h.write(wire.Binary, program.bytes, 0o755); err != nil {
		return err
	}
	for _, client := range clients {
		if err := h.link(wire.Binary, client); err != nil {
			return err
		}
	}
	return nil
}
