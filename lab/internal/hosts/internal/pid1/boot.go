//go:build linux

// Package pid1 is the init of a test host: it mounts what a Linux system expects, starts the enabled services, reaps, and
// does what systemctl, systemd-run and journalctl ask.
package pid1

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/wire"
)

// Main is PID 1. It reads wire.PID1 from config, boots, writes a line to ready when the services are started, and serves until
// it is killed.
func Main(config io.Reader, ready io.Writer) error {
	var c wire.PID1
	if err := json.NewDecoder(config).Decode(&c); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	if err := setUp(c); err != nil {
		return err
	}
	syncDelay.Store(int64(c.SyncDelay))
	if err := watchSyncs(); err != nil {
		return err
	}
	manager := newManager(newProcesses())
	listener, err := listen()
	if err != nil {
		return err
	}
	go serve(listener, manager)
	manager.startEnabled()
	if _, err := io.WriteString(ready, "ready\n"); err != nil {
		return fmt.Errorf("telling that the host is up: %w", err)
	}
	select {}
}

func setUp(c wire.PID1) error {
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"taking a name", func() error { return os.WriteFile("/proc/self/comm", []byte("systemd"), 0) }},
		{"mounting", func() error { return mountAll(c.Root, c.Journal) }},
		{"entering the root", func() error { return enter(c.Root) }},
		{"setting the host name", func() error { return syscall.Sethostname([]byte(c.Hostname)) }},
		{"setting up the network", func() error { return network(c) }},
		{"making folders", folders},
		{"making folders read-only", func() error { return readOnlyAll(c.ReadOnly) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func mountAll(root, journal string) error {
	const common = syscall.MS_NOSUID | syscall.MS_NODEV
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"proc", "/proc", "proc", common | syscall.MS_NOEXEC, ""},
		{"sysfs", "/sys", "sysfs", common | syscall.MS_NOEXEC | syscall.MS_RDONLY, ""},
		{"dev", "/dev", "tmpfs", syscall.MS_NOSUID, "mode=755,size=1m"},
		{"devpts", "/dev/pts", "devpts", syscall.MS_NOSUID | syscall.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5"},
		{"shm", "/dev/shm", "tmpfs", common, "mode=1777"},
		{"run", "/run", "tmpfs", common, "mode=755"},
		{"tmp", "/tmp", "tmpfs", common, "mode=1777"},
		{journal, wire.Journal, "", syscall.MS_BIND, ""},
	} {
		target := filepath.Join(root, m.target)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(m.source, target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("%s: %w", m.target, err)
		}
	}
	return devices(filepath.Join(root, "dev"))
}

func devices(dev string) error {
	for _, d := range []struct {
		name         string
		major, minor uint32
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}} {
		path := filepath.Join(dev, d.name)
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fmt.Errorf("making /dev/%s: %w", d.name, err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			return err
		}
	}
	var errs []error
	for name, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		errs = append(errs, os.Symlink(target, filepath.Join(dev, name)))
	}
	return errors.Join(errs...)
}

func enter(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := syscall.PivotRoot(".", "."); err != nil {
		return err
	}
	// The machine's root lies over the new one until it is taken away.
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return err
	}
	return os.Chdir("/")
}

func network(c wire.PID1) error {
	ip := exec.Command("ip", "-batch", "-")
	ip.Stdin = strings.NewReader(fmt.Sprintf("link set lo up\naddr add %s/30 dev eth0\nlink set eth0 up\nroute add default via %s\n", c.Address, c.Gateway))
	if output, err := ip.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

func folders() error {
	// /run/systemd/system is how programs see that systemd runs the machine.
	for _, dir := range []string{"/run/systemd/system", "/run/notify", "/run/lock", "/run/sshd"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func readOnlyAll(dirs []string) error {
	for _, dir := range dirs {
		if err := readOnly(dir); err != nil {
			return err
		}
	}
	return nil
}

func readOnly(dir string) error {
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

func writable(dir string) error {
	if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}
