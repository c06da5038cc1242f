//go:build linux

package hosts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
)

// dial connects as the user, and checks the host's key against known_hosts.
func dial(t *testing.T, h *hosts.Host, user, address string, known []byte) (*ssh.Client, error) {
	t.Helper()
	signer, err := ssh.ParsePrivateKey(h.Key(user))
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/known_hosts"
	write(t, file, known)
	check, err := knownhosts.New(file)
	if err != nil {
		t.Fatal(err)
	}
	client, err := ssh.Dial("tcp", address, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: check, Timeout: 2 * time.Minute,
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	})
	if err == nil {
		t.Cleanup(func() { _ = client.Close() })
	}
	return client, err
}

func mustDial(t *testing.T, h *hosts.Host, user string) *ssh.Client {
	t.Helper()
	client, err := dial(t, h, user, h.Address()+":22", h.KnownHosts())
	if err != nil {
		t.Fatalf("ssh as %s: %v\n%s", user, err, h.Journal("ssh"))
	}
	return client
}

func over(t *testing.T, client *ssh.Client, command string) (string, error) {
	t.Helper()
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	output, err := session.CombinedOutput(command)
	return strings.TrimSpace(string(output)), err
}

func run(t *testing.T, h *hosts.Host, script string) string {
	t.Helper()
	return strings.TrimSpace(h.MustRun(script))
}

func TestUsersOverSSH(t *testing.T) {
	h := hosts.Start(t, hosts.Options{Name: "worker-1"})
	for user, c := range map[string]struct {
		command, want string
		fails         bool
	}{
		"root":       {command: "id -un; hostname; cat /proc/1/comm", want: "root\nworker-1\n"},
		hosts.Ops:    {command: "id -un; sudo -n id -un; sudo -n -- sh -c 'id -u'", want: "ops\nroot\n0"},
		hosts.NoSudo: {command: "sudo -n true", want: "sudo: a password is required", fails: true},
	} {
		t.Run(user, func(t *testing.T) {
			got, err := over(t, mustDial(t, h, user), c.command)
			if !strings.HasPrefix(got, c.want) || (err != nil) != c.fails {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	if _, err := over(t, mustDial(t, h, hosts.Ops), "systemctl stop ssh"); err == nil {
		t.Error("a user stopped sshd")
	}
	if got, err := over(t, mustDial(t, h, hosts.Ops), "systemctl is-active ssh"); err != nil || got != "active" {
		t.Errorf("is-active: %q, %v", got, err)
	}
}

func TestAHostIsNotTheMachine(t *testing.T) {
	h := hosts.Start(t, hosts.Options{
		Files: map[string][]byte{"/etc/windlass-test": []byte("here")},
		Links: map[string]string{"/usr/bin/awk": "/etc/windlass-test"},
	})
	for script, want := range map[string]string{
		"ls -A /root /etc/kubernetes /var/lib/kubelet | grep -v ^/": "",
		"cat /etc/windlass-test /usr/bin/awk":                       "herehere",
		"stat -f -c %T /run /tmp":                                   "tmpfs\ntmpfs",
		"ls /sys/class/net | tr '\\n' ' '":                          "eth0 lo",
		"pgrep -x systemd":                                          "1",
		"pgrep -c -x sshd":                                          "1",
		"cat /proc/sys/kernel/hostname":                             "host",
		"test -d /run/systemd/system && echo yes":                   "yes",
		"echo x >/dev/null; head -c 2 /dev/zero | wc -c; (exec 3<>/dev/ptmx) && echo pty": "2\npty",
		"getent hosts host | tr -s ' '": h.Address() + " host",
	} {
		got, err := h.Run(t.Context(), script)
		if strings.TrimSpace(got) != want {
			t.Errorf("%s: %q, want %q (%v)", script, got, want, err)
		}
	}
}

func TestPowerCutKillsEverythingAndKeepsTheDisk(t *testing.T) {
	h := hosts.Start(t, hosts.Options{})
	client := mustDial(t, h, "root")
	if _, err := over(t, client, "echo kept >/var/lib/kept; echo lost >/run/lost; echo lost >/tmp/lost; systemd-run --quiet --unit=job --collect sleep 1000"); err != nil {
		t.Fatal(err)
	}
	before := h.PID()
	h.PowerCut()
	if _, err := h.Run(t.Context(), "true"); err == nil {
		t.Error("a host without power ran a script")
	}
	if got, err := h.Read("/var/lib/kept"); err != nil || string(got) != "kept\n" {
		t.Errorf("on the disk: %q, %v", got, err)
	}
	h.Write("/etc/written-while-off", []byte("x"))
	_, err := net.DialTimeout("tcp", h.Address()+":22", 10*time.Second)
	if err == nil {
		t.Error("a host without power answered")
	}
	h.Boot()
	if h.PID() == before {
		t.Error("PID 1 is the same process")
	}
	for _, path := range []string{"/run/lost", "/tmp/lost"} {
		if _, err := h.Read(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	want := "kept\nxinactive"
	if got, _ := over(t, mustDial(t, h, "root"), "cat /var/lib/kept /etc/written-while-off; systemctl is-active job"); got != want {
		t.Errorf("after the boot: %q", got)
	}
	// The old connection meets a host that knows nothing of it.
	if _, err := client.NewSession(); err == nil {
		t.Error("a connection outlived a power cut")
	}
}

func TestARunningScriptEndsWithThePowerAndWithItsContext(t *testing.T) {
	h := hosts.Start(t, hosts.Options{})
	result := make(chan error, 1)
	started := listenFor(t, h, "/run/started")
	go func() {
		_, err := h.Run(t.Context(), "touch /run/started; sleep 1000")
		result <- err
	}()
	started()
	h.PowerCut()
	if err := <-result; err == nil {
		t.Error("the script went on")
	}
	h.Boot()
	ctx, cancel := context.WithCancel(t.Context())
	started = listenFor(t, h, "/run/started")
	go func() {
		_, err := h.Run(ctx, "touch /run/started; sleep 999")
		result <- err
	}()
	started()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	run(t, h, "while pgrep -x sleep >/dev/null; do :; done")
	var exit *hosts.ExitError
	if _, err := h.Run(t.Context(), "echo no; exit 7"); !errors.As(err, &exit) || exit.Code != 7 || exit.Output != "no\n" {
		t.Errorf("%v", err)
	}
}

// listenFor returns a function that returns when the file is there.
func listenFor(t *testing.T, h *hosts.Host, path string) func() {
	t.Helper()
	return func() {
		t.Helper()
		run(t, h, "until test -e "+path+"; do read -t 0.01 <> <(:) || :; done")
	}
}

func TestDisconnect(t *testing.T) {
	h := hosts.Start(t, hosts.Options{})
	client := mustDial(t, h, "root")
	h.Disconnect()
	if _, err := net.DialTimeout("tcp", h.Address()+":22", 10*time.Second); err == nil {
		t.Error("connected without a network")
	}
	h.Connect()
	if got, err := over(t, client, "echo still here"); err != nil || got != "still here" {
		t.Errorf("the old connection: %q, %v", got, err)
	}
}

func TestDropConnectionsEvery(t *testing.T) {
	h := hosts.Start(t, hosts.Options{})
	address := h.DropConnectionsEvery(300 * time.Millisecond)
	for dropped := 0; dropped < 2; {
		// On a busy machine, the connection may end before the command begins. Later ones last longer.
		client, err := dial(t, h, "root", address, h.KnownHosts())
		if err != nil {
			continue
		}
		session, err := client.NewSession()
		if err != nil {
			continue
		}
		if output, err := session.CombinedOutput("sleep 1000"); err == nil {
			t.Errorf("the connection lasted: %q", output)
		}
		dropped++
	}
}

func TestChangeHostKey(t *testing.T) {
	h := hosts.Start(t, hosts.Options{})
	old := h.KnownHosts()
	open := mustDial(t, h, "root")
	h.ChangeHostKey()
	var mismatch *knownhosts.KeyError
	if _, err := dial(t, h, "root", h.Address()+":22", old); !errors.As(err, &mismatch) || len(mismatch.Want) == 0 {
		t.Errorf("with the old key: %v", err)
	}
	mustDial(t, h, "root")
	if _, err := open.NewSession(); err == nil {
		t.Error("the connection that was open goes on")
	}
}

func TestFullDisk(t *testing.T) {
	h := hosts.Start(t, hosts.Options{Size: 32 << 20})
	h.FillDisk()
	const write = "head -c 100000 /dev/zero >/var/lib/file"
	if output, err := h.Run(t.Context(), write); err == nil || !strings.Contains(output, "No space left on device") {
		t.Errorf("%q, %v", output, err)
	}
	h.PowerCut()
	h.Boot()
	if _, err := h.Run(t.Context(), write); err == nil {
		t.Error("the disk has room after a boot")
	}
	h.FreeDisk()
	run(t, h, write)
	if output, err := h.Run(t.Context(), "head -c 40000000 /dev/zero >/var/lib/file"); err == nil || !strings.Contains(output, "No space left") {
		t.Errorf("more than the disk's size: %q, %v", output, err)
	}
}

func TestReadOnly(t *testing.T) {
	h := hosts.Start(t, hosts.Options{})
	h.ReadOnly("/usr")
	for range 2 {
		if output, err := h.Run(t.Context(), "touch /usr/bin/x"); err == nil || !strings.Contains(output, "Read-only file system") {
			t.Errorf("%q, %v", output, err)
		}
		run(t, h, "touch /var/lib/x")
		h.Boot()
	}
	h.Writable("/usr")
	run(t, h, "touch /usr/bin/x")
	h.Boot()
	run(t, h, "touch /usr/bin/x")
}

func TestForward(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(connection, "the machine's loopback")
			_ = connection.Close()
		}
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	read := "cat </dev/tcp/127.0.0.1/" + port
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	h := hosts.Start(t, hosts.Options{})
	if output, err := h.Run(t.Context(), read); err == nil {
		t.Errorf("reached without a forward: %q", output)
	}
	h.Forward(number)
	for range 2 {
		if got := run(t, h, read); got != "the machine's loopback" {
			t.Errorf("%q", got)
		}
		h.Boot()
	}
	h.Unforward(number)
	if output, err := h.Run(t.Context(), read); err == nil {
		t.Errorf("reached after Unforward: %q", output)
	}
}

func TestBehindABastion(t *testing.T) {
	bastion := hosts.Start(t, hosts.Options{Name: "bastion"})
	inner := hosts.Start(t, hosts.Options{Name: "inner", Behind: bastion})
	if _, err := net.DialTimeout("tcp", inner.Address()+":22", 10*time.Second); err == nil {
		t.Error("reached without the bastion")
	}
	through, err := mustDial(t, bastion, hosts.NoSudo).Dial("tcp", inner.Address()+":22")
	if err != nil {
		t.Fatal(err)
	}
	banner := make([]byte, 7)
	if _, err := through.Read(banner); err != nil || !bytes.HasPrefix(banner, []byte("SSH-2.0")) {
		t.Errorf("%q, %v", banner, err)
	}
	inner.Disconnect()
	inner.Connect()
	run(t, bastion, "read -t 10 -n 7 line </dev/tcp/"+inner.Address()+"/22")
}

func TestHostsSideBySide(t *testing.T) {
	seen := map[string]bool{}
	for i := range 3 {
		h := hosts.Start(t, hosts.Options{Name: fmt.Sprintf("host-%d", i)})
		if got, err := over(t, mustDial(t, h, "root"), "hostname"); err != nil || got != h.Name() {
			t.Errorf("%s calls itself %q: %v", h.Name(), got, err)
		}
		seen[h.Address()] = true
	}
	if len(seen) != 3 {
		t.Errorf("addresses: %v", seen)
	}
}

func TestHostsStartedAtOnce(t *testing.T) {
	t.Parallel()
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			mustDial(t, hosts.Start(t, hosts.Options{}), "root")
		})
	}
}

func TestReadStaysInTheHost(t *testing.T) {
	h := hosts.Start(t, hosts.Options{})
	run(t, h, "mkdir /opt/real && ln -s /opt/real /opt/link && echo in >/opt/real/file && ln -s /../../../opt/real/file /opt/out")
	for _, path := range []string{"/opt/link/file", "/opt/out"} {
		if got, err := h.Read(path); err != nil || string(got) != "in\n" {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	h.Write("/opt/link/made/here", []byte("#!/bin/sh\necho made\n"))
	if got := run(t, h, "/opt/real/made/here"); got != "made" {
		t.Errorf("%q", got)
	}
	h.Remove("/opt/link/made/here")
	h.Remove("/opt/link/made")
	h.Remove("/opt/link/made/here")
	if got := run(t, h, "ls /opt/real"); got != "file" {
		t.Errorf("%q", got)
	}
}
