package ssh_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gossh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/transport/ssh"
	"github.com/windlass-dev/windlass/test/loopback"
)

const sshdPath = "/usr/sbin/sshd"

// needsSSHD skips tests where there is no sshd, but not where all of them must run.
func needsSSHD(t *testing.T) {
	t.Helper()
	problem := ""
	if _, err := os.Stat(sshdPath); err != nil {
		problem = "there is no " + sshdPath
	} else if os.Getuid() != 0 {
		problem = "sshd for root needs root"
	}
	if problem != "" && os.Getenv("CI") == "true" {
		t.Fatal(problem)
	}
	if problem != "" {
		t.Skip(problem)
	}
}

// keyPair is a private key and its file.
type keyPair struct {
	signer gossh.Signer
	pem    []byte
}

func newKey(t *testing.T, kind string) keyPair {
	t.Helper()
	var private any
	var err error
	if kind == "ecdsa" {
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	} else {
		_, private, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	block, err := gossh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	content := pem.EncodeToMemory(block)
	signer, err := gossh.ParsePrivateKey(content)
	if err != nil {
		t.Fatal(err)
	}
	return keyPair{signer: signer, pem: content}
}

// server is a running sshd.
type server struct {
	address string
	dir     string
	// ed and ec are its two host keys; user may log in as root.
	ed, ec, user keyPair
	stop         func()
}

// startSSHD runs an sshd with more lines in its configuration. In these, DIR is its folder.
func startSSHD(t *testing.T, lines ...string) *server {
	t.Helper()
	needsSSHD(t)
	// Where it drops its rights.
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	s := &server{dir: t.TempDir(), ed: newKey(t, "ed25519"), ec: newKey(t, "ecdsa"), user: newKey(t, "ed25519")}
	s.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(loopback.FreePort(t)))
	s.write(t, "ed", s.ed.pem)
	s.write(t, "ec", s.ec.pem)
	s.write(t, "authorized_keys", gossh.MarshalAuthorizedKey(s.user.signer.PublicKey()))
	// What root's own .bashrc does is none of the test's business. Of several lines, the first one counts.
	lines = append(lines, "SetEnv HOME=DIR", "ListenAddress "+s.address, "HostKey DIR/ed", "HostKey DIR/ec", "AuthorizedKeysFile DIR/authorized_keys", "PidFile none", "StrictModes no",
		"UsePAM no", "PasswordAuthentication no", "KbdInteractiveAuthentication no", "PermitRootLogin prohibit-password", "MaxStartups 100", "LogLevel INFO")
	s.write(t, "config", []byte(strings.ReplaceAll(strings.Join(lines, "\n")+"\n", "DIR", s.dir)))
	s.run(t)
	return s
}

func (s *server) write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run starts it, and waits until it listens.
func (s *server) run(t *testing.T) {
	t.Helper()
	cmd := exec.Command(sshdPath, "-D", "-e", "-f", filepath.Join(s.dir, "config"))
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan string, 1)
	var kept strings.Builder
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		lines := bufio.NewScanner(log)
		told := false
		for lines.Scan() {
			kept.WriteString(lines.Text() + "\n")
			if !told && strings.Contains(lines.Text(), "Server listening") {
				told = true
				listening <- ""
			}
		}
		if !told {
			listening <- kept.String()
		}
	}()
	s.stop = sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	t.Cleanup(func() {
		s.stop()
		// Sessions keep the log open; the test's end is not theirs.
		select {
		case <-drained:
			if t.Failed() {
				t.Logf("sshd at %s:\n%s", s.address, kept.String())
			}
		default:
		}
	})
	if problem := <-listening; problem != "" {
		t.Fatalf("sshd ended: %s", problem)
	}
}

// login is how to log in there, by its pinned key.
func (s *server) login() ssh.Login {
	return ssh.Login{Address: s.address, User: "root", PrivateKeys: [][]byte{s.user.pem}, KnownHosts: pin(s.address, s.ed)}
}

// pin is a line of known_hosts.
func pin(address string, key keyPair) []byte {
	return []byte(knownhosts.Line([]string{address}, key.signer.PublicKey()) + "\n")
}

// open returns a host that has a minute to log in, unless the options differ.
func open(t *testing.T, o ssh.Options) port.Host {
	t.Helper()
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = time.Minute
	}
	h, err := ssh.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// relay stands between a host and who connects to it.
type relay struct {
	address string
	target  string

	mu     sync.Mutex
	conns  []net.Conn
	frozen bool
	made   int
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{address: listener.Addr().String(), target: target}
	t.Cleanup(func() { _ = listener.Close(); r.cut() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r.serve(conn)
		}
	}()
	return r
}

func (r *relay) serve(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made++
	r.conns = append(r.conns, conn)
	if r.frozen {
		return
	}
	target, err := net.Dial("tcp", r.target)
	if err != nil {
		_ = conn.Close()
		return
	}
	r.conns = append(r.conns, target)
	go r.copy(conn, target)
	go r.copy(target, conn)
}

func (r *relay) copy(to, from net.Conn) {
	_, _ = io.Copy(writer(func(p []byte) (int, error) {
		r.mu.Lock()
		frozen := r.frozen
		r.mu.Unlock()
		if frozen {
			return len(p), nil
		}
		return to.Write(p)
	}), from)
	_ = to.Close()
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// lead has later connections lead to another address.
func (r *relay) lead(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
}

// cut ends all connections there are.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.conns {
		_ = conn.Close()
	}
	r.conns = nil
}

// freeze keeps connections, and passes nothing on any more.
func (r *relay) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = true
}

func (r *relay) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.made
}

// reader calls a function when stdin is first read, that is, when the script was sent; then it gives nothing until the test ends.
type reader struct {
	t    *testing.T
	once sync.Once
	read func()
}

func (r *reader) Read([]byte) (int, error) {
	r.once.Do(r.read)
	<-r.t.Context().Done()
	return 0, io.EOF
}

// fake is a folder of programs.
func fake(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, script := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// wantReason checks how an Exec failed, and what its message must and must not hold.
func wantReason(t *testing.T, err error, reason port.HostReason, words ...string) {
	t.Helper()
	if port.ReasonOfHost(err) != reason {
		t.Fatalf("the reason is %q, want %q: %v", port.ReasonOfHost(err), reason, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the message lacks %q: %v", word, err)
		}
	}
	for _, secret := range []string{"PRIVATE KEY", "b3BlbnNzaC1r", secretWord} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the message holds %q: %v", secret, err)
		}
	}
}

// secretWord is in what nobody should read.
const secretWord = "hunter2"

// run runs a script that holds a secret.
func run(t *testing.T, h port.Host) (port.HostResult, error) {
	t.Helper()
	return h.Exec(t.Context(), port.HostCommand{Script: "password=" + secretWord + "; echo ok", Stdin: strings.NewReader(secretWord)})
}

func wantRuns(t *testing.T, h port.Host) {
	t.Helper()
	if got, err := run(t, h); err != nil || string(got.Stdout) != "ok\n" || got.ExitCode != 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
}

// shortTimeout is for hosts that do not answer.
const shortTimeout = 300 * time.Millisecond

func path(dirs ...string) string {
	return fmt.Sprintf("SetEnv HOME=DIR PATH=%s", strings.Join(dirs, ":"))
}
