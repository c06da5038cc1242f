//go:build linux

// Package machine is the process behind a test host: it holds the disk, plugs the network cable, and starts and kills PID 1. It
// ends, and takes everything with it, when its standard input ends; so nothing outlives the test that started it.
package machine

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/wire"
)

// machine must be used by one goroutine that is locked to its thread: the kernel kills PID 1 when the thread that started it
// ends.
type machine struct {
	slot    *slot
	disk    string
	journal string
	// tmpfs holds what was written to the disk, at most size bytes.
	tmpfs string
	size  int64
	pid1  *exec.Cmd
}

// Main reads wire.Setup and then wire.Command from in, and answers each on out. It must run in mount and IPC namespaces of its
// own.
func Main(in io.Reader, out io.Writer) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	requests, answers := json.NewDecoder(in), json.NewEncoder(out)
	var setup wire.Setup
	if err := requests.Decode(&setup); err != nil {
		return fmt.Errorf("reading the setup: %w", err)
	}
	m, err := newMachine(setup)
	if err != nil {
		return errors.Join(err, answers.Encode(wire.Ready{Error: err.Error()}))
	}
	defer m.end()
	err = answers.Encode(wire.Ready{
		Disk: m.disk, Journal: m.journal, Link: m.slot.link, Host: m.slot.host, Gateway: m.slot.gateway,
	})
	for err == nil {
		var command wire.Command
		if requests.Decode(&command) != nil {
			return nil // the test is over
		}
		err = answers.Encode(m.carryOut(command))
	}
	return err
}

func newMachine(setup wire.Setup) (*machine, error) {
	if err := sweep(setup.State); err != nil {
		return nil, err
	}
	slot, err := allocate(setup.State)
	if err != nil {
		return nil, err
	}
	m := &machine{slot: slot}
	if err := errors.Join(m.makeDisk(setup), slot.block()); err != nil {
		m.end()
		return nil, err
	}
	return m, nil
}

// makeDisk lays an overlay over the machine's root. Its upper folder is a tmpfs of the given size, so that it can be full.
// Both are mounted in this process's mount namespace, and are gone when it ends.
func (m *machine) makeDisk(setup wire.Setup) error {
	base := filepath.Join(setup.State, "disk")
	m.disk, m.journal, m.tmpfs, m.size = filepath.Join(base, "root"), filepath.Join(base, "journal"), filepath.Join(base, "disk"), setup.Size
	upper, work := filepath.Join(m.tmpfs, "upper"), filepath.Join(m.tmpfs, "work")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	if err := mountTmpfs(base, "mode=755,size=64m"); err != nil {
		return err
	}
	for _, dir := range []string{m.disk, m.journal, m.tmpfs} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := mountTmpfs(m.tmpfs, fmt.Sprintf("mode=755,size=%d", setup.Size)); err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755), hide(upper, setup.Empty)); err != nil {
		return err
	}
	data := fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s", upper, work)
	if err := syscall.Mount("windlass-host", m.disk, "overlay", 0, data); err != nil {
		return fmt.Errorf("mounting the overlay: %w", err)
	}
	return nil
}

// hide puts empty folders over the machine's, in the way that overlays mark them.
func hide(upper string, dirs []string) error {
	for _, dir := range dirs {
		path := filepath.Join(upper, dir)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := syscall.Setxattr(path, "trusted.overlay.opaque", []byte("y"), 0); err != nil {
			return fmt.Errorf("hiding %s: %w", dir, err)
		}
	}
	return nil
}

func mountTmpfs(path, options string) error {
	if err := syscall.Mount("windlass-host", path, "tmpfs", syscall.MS_NODEV, options); err != nil {
		return fmt.Errorf("mounting a tmpfs on %s: %w", path, err)
	}
	return nil
}

func (m *machine) end() {
	m.cut()
	m.slot.free()
}

func (m *machine) carryOut(command wire.Command) wire.Done {
	var pid int
	var err error
	switch command.Action {
	case wire.Boot:
		m.cut()
		if pid, err = m.boot(command.Options); err != nil {
			m.cut()
		}
	case wire.Cut:
		m.cut()
	case wire.Fill:
		err = m.fill()
	case wire.Free:
		err = m.resize(m.size)
	default:
		err = fmt.Errorf("unknown action %q", command.Action)
	}
	if err != nil {
		return wire.Done{Error: err.Error()}
	}
	return wire.Done{PID: pid}
}

// fill makes the disk as small as what is on it.
func (m *machine) fill() error {
	var info syscall.Statfs_t
	if err := syscall.Statfs(m.tmpfs, &info); err != nil {
		return fmt.Errorf("measuring the disk: %w", err)
	}
	return m.resize(int64(info.Blocks-info.Bfree) * info.Bsize)
}

func (m *machine) resize(size int64) error {
	if err := syscall.Mount("", m.tmpfs, "", syscall.MS_REMOUNT|syscall.MS_NODEV, fmt.Sprintf("size=%d", size)); err != nil {
		return fmt.Errorf("changing the size of the disk: %w", err)
	}
	return nil
}

// cut takes the cable out and kills PID 1, and with it everything in its PID namespace. The cable goes first: a host without
// power does not say goodbye.
func (m *machine) cut() {
	if m.pid1 == nil {
		return
	}
	m.slot.unplug(m.pid1.Process.Pid)
	_ = m.pid1.Process.Kill()
	_ = m.pid1.Wait()
	m.pid1 = nil
}

// boot starts PID 1 in namespaces of its own and returns when it has started the enabled services.
func (m *machine) boot(b wire.BootOptions) (int, error) {
	configReader, configWriter, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer func() { _ = configWriter.Close() }()
	readyReader, readyWriter, err := os.Pipe()
	if err != nil {
		return 0, errors.Join(err, configReader.Close())
	}
	defer func() { _ = readyReader.Close() }()
	pid1 := exec.Command("/proc/self/exe")
	pid1.Args = []string{"/sbin/init"}
	pid1.Env = []string{"PATH=" + os.Getenv("PATH"), wire.ModeVariable + "=" + wire.ModePID1}
	pid1.ExtraFiles = []*os.File{configReader, readyWriter}
	pid1.Stderr = os.Stderr
	pid1.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL, Setsid: true,
	}
	err = pid1.Start()
	if err := errors.Join(err, configReader.Close(), readyWriter.Close()); err != nil {
		return 0, fmt.Errorf("starting PID 1: %w", err)
	}
	m.pid1 = pid1
	if err := m.slot.plug(pid1.Process.Pid, b); err != nil {
		return 0, err
	}
	err = json.NewEncoder(configWriter).Encode(wire.PID1{
		Root: m.disk, Journal: m.journal, Hostname: b.Hostname, Address: m.slot.host, Gateway: m.slot.gateway, ReadOnly: b.ReadOnly,
		SyncDelay: b.SyncDelay,
	})
	if err != nil {
		return 0, fmt.Errorf("configuring PID 1: %w", err)
	}
	if _, err := bufio.NewReader(readyReader).ReadString('\n'); err != nil {
		return 0, fmt.Errorf("PID 1 did not come up: %w", err)
	}
	return pid1.Process.Pid, nil
}
