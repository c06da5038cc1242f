//go:build linux

// Package play_test starts a Linux host to play with: `make host`.
package play_test

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/windlass-dev/windlass/test/hosts"
)

// from and to are the versions of the stand-ins on the host, and beside them.
const from, to = "v1.35.4", "v1.36.3"

// TestPlay keeps a host for as long as it is not interrupted. The files for logging in, and the binaries' digests, stand in the folder that
// WINDLASS_HOST names.
func TestPlay(t *testing.T) {
	folder := os.Getenv("WINDLASS_HOST")
	if folder == "" {
		t.Skip("set WINDLASS_HOST to a folder, or run `make host`")
	}
	unlock, err := lock(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	host, digests := start(t)
	for name, content := range map[string][]byte{
		"id": host.Key("root"), "id_ops": host.Key(hosts.Ops), "known_hosts": append(host.KnownHosts(), '\n'), "SHA256SUMS": []byte(digests),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	say(`
A Linux host with stand-ins for kubeadm and the kubelet, %[1]s, runs until you interrupt this (^C). In another terminal:

  bin/windlass updater kubeadm run --host %[2]s --to %[3]s --identity %[4]s/id --known-hosts %[4]s/known_hosts \
    --binaries-folder /opt/binaries --digests %[4]s/SHA256SUMS --no-drain --dry-run

The user %[5]s, who is not root and may use sudo, logs in with --user %[5]s --identity %[4]s/id_%[5]s.
Enter cuts the host's power, and boots it again with its disk as it is.

`, from, host.Address(), to, os.Getenv("WINDLASS_HOST_SHOWN"), hosts.Ops)
	keep(t, host)
}

// start starts the host, and gives the manifest of the digests of the binaries that lie on it.
func start(t *testing.T) (host *hosts.Host, digests string) {
	t.Helper()
	files := map[string][]byte{
		"/etc/systemd/system/kubelet.service": []byte("[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\n[Install]\nWantedBy=multi-user.target\n"),
		"/etc/kubernetes/kubelet.conf":        []byte("clusters: []\n"),
		"/var/lib/kubelet/kubeadm-flags.env":  []byte("KUBELET_KUBEADM_ARGS=\"\"\n"),
	}
	for name, content := range standIn(t, from) {
		files["/usr/bin/"+name] = content
	}
	var lines []string
	for name, content := range standIn(t, to) {
		path := to + "/linux/amd64/" + name
		files["/opt/binaries/"+path] = content
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), path))
	}
	slices.Sort(lines)
	return hosts.Start(t, hosts.Options{Name: "play", Files: files, Enable: []string{"kubelet"}}), strings.Join(lines, "")
}

// keep keeps the host until an interrupt. Each line of stdin is a power cut and a boot.
func keep(t *testing.T, host *hosts.Host) {
	t.Helper()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	enter := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			enter <- struct{}{}
		}
	}()
	ended := ends(t, host.PID())
	for {
		select {
		case <-interrupted:
			return
		case <-enter:
			host.PowerCut()
			host.Boot()
			ended = ends(t, host.PID())
			say("The power was cut; the host has booted again.\n")
		case <-ended:
			ended = nil
			say("The host has died by itself. Enter boots it again.\n")
		}
	}
}

// ends tells when a process ends.
func ends(t *testing.T, pid int) <-chan struct{} {
	t.Helper()
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("watching the host: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer func() { _ = unix.Close(process) }()
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, -1)
			if n > 0 {
				close(ended)
			}
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	return ended
}

// lock makes a folder, and keeps others from using it until unlock is called, or this process ends.
func lock(folder string) (unlock func(), err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	opened, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(opened.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = opened.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another host runs already, with its files in %s: use that one, or interrupt it first", folder)
		}
		return nil, fmt.Errorf("locking %s: %w", folder, err)
	}
	return func() { _ = opened.Close() }, nil
}

func TestLock(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "host")
	unlock, err := lock(folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(folder); err == nil || !strings.HasPrefix(err.Error(), "another host runs already") {
		t.Errorf("a second lock: %v", err)
	}
	unlock()
	if unlock, err = lock(folder); err != nil {
		t.Fatal(err)
	}
	unlock()
}

// say writes to the terminal; what the test itself prints goes elsewhere.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format, args...) }

func standIn(t *testing.T, version string) map[string][]byte {
	t.Helper()
	programs, err := hosts.StandIn(version)
	if err != nil {
		t.Fatal(err)
	}
	return programs
}
