package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/test/loopback"
)

// startTimeout is how long a process may take until it is ready; far beyond what a busy machine needs.
const startTimeout = 2 * time.Minute

// Process is a `windlass` command that serves hooks and the guard. It ends with the test.
type Process struct {
	// Hooks and Guard are where it serves them, as https://127.0.0.1:port.
	Hooks, Guard string
	// Webhooks is where a manager serves Cluster API's webhooks, as https://127.0.0.1:port.
	Webhooks string
	// Health is where it serves /healthz and /readyz, as http://127.0.0.1:port.
	Health string
	// Diagnostics is where it serves metrics and profiles, as 127.0.0.1:port.
	Diagnostics string
	// CertDir holds its serving certificate.
	CertDir string
	// Authority signed its serving certificate.
	Authority *loopback.Authority

	command *exec.Cmd
	client  *http.Client
	log     string
	done    chan struct{}
}

// Run starts `windlass extension` with further arguments, and waits until it serves.
func (p *Plane) Run(t *testing.T, args ...string) *Process {
	t.Helper()
	e := p.Launch(t, args...)
	e.AwaitReady(t)
	return e
}

// Launch is Run without the wait.
func (p *Plane) Launch(t *testing.T, args ...string) *Process {
	t.Helper()
	dir, authority := serving(t)
	hooks, guard, health, diagnostics := FreePort(t), FreePort(t), FreePort(t), FreePort(t)
	e := &Process{
		Hooks: "https://" + hooks, Guard: "https://" + guard, Health: "http://" + health, Diagnostics: diagnostics, CertDir: dir, Authority: authority,
		log: filepath.Join(t.TempDir(), "windlass.log"), done: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: authority.Pool()}}},
	}
	e.start(t, p.Executable, append([]string{
		"extension", "--kubeconfig", p.Kubeconfig, "--bind-address", "127.0.0.1", "--port", portOf(hooks), "--guard-port", portOf(guard),
		"--health-addr", health, "--diagnostics-address", diagnostics, "--cert-dir", dir, "--log-format", "json",
	}, args...))
	return e
}

// RunManager starts `windlass manager` with further arguments, and waits until it is ready. Its webhook
// server is not registered anywhere. It does not do what `windlass extension` does.
func (p *Plane) RunManager(t *testing.T, args ...string) *Process {
	t.Helper()
	dir, authority := serving(t)
	webhooks, health, diagnostics := FreePort(t), FreePort(t), FreePort(t)
	e := &Process{
		Webhooks: "https://" + webhooks, Health: "http://" + health, Diagnostics: diagnostics,
		CertDir: dir, Authority: authority, log: filepath.Join(t.TempDir(), "windlass.log"), done: make(chan struct{}),
	}
	e.start(t, p.Executable, append([]string{
		"manager", "--kubeconfig", p.Kubeconfig, "--webhook-bind-address", "127.0.0.1", "--webhook-port", portOf(webhooks), "--webhook-cert-dir", dir, "--health-addr", health,
		"--diagnostics-address", diagnostics, "--insecure-diagnostics",
	}, args...))
	e.AwaitReady(t)
	return e
}

// RunManagerWithExtension is RunManager for a manager that does what `windlass extension` does, too. It
// waits until the hooks are served: the manager is ready before.
func (p *Plane) RunManagerWithExtension(t *testing.T, args ...string) *Process {
	t.Helper()
	dir, authority := serving(t)
	hooks := FreePort(t)
	e := p.RunManager(t, append([]string{
		"--extension-bind-address", "127.0.0.1", "--extension-port", portOf(hooks), "--extension-cert-dir", dir,
	}, args...)...)
	e.Hooks, e.CertDir, e.Authority = "https://"+hooks, dir, authority
	e.client = e.Client(t, nil)
	loopback.Eventually(t, "the manager serves the hooks", func() bool {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", hooks)
		return err == nil && connection.Close() == nil
	})
	return e
}

// serving returns a folder with a serving certificate, and the authority that signed it.
func serving(t *testing.T) (dir string, authority *loopback.Authority) {
	t.Helper()
	dir, authority = t.TempDir(), loopback.NewAuthority(t, "serving")
	authority.Issue(t, "windlass", time.Now().Add(time.Hour)).WriteTo(t, dir)
	return dir, authority
}

// start starts the command, which ends with the test.
func (e *Process) start(t *testing.T, executable string, arguments []string) {
	t.Helper()
	//nolint:usetesting // The process is ended by the cleanup below, which reads its log first.
	e.command = exec.CommandContext(context.Background(), executable, arguments...)
	file, err := os.Create(e.log)
	if err != nil {
		t.Fatal(err)
	}
	e.command.Stdout, e.command.Stderr = file, file
	e.command.Env = append(os.Environ(), environment(t)...)
	if err := e.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(e.done)
		_ = e.command.Wait() // Tests end processes in many ways; the log tells what a process has to say.
		_ = file.Close()
	}()
	t.Cleanup(func() {
		e.Kill(t)
		if t.Failed() {
			t.Logf("the log of %s:\n%s", arguments[0], tail(e.Log(t)))
		}
	})
}

// AwaitReady waits until /readyz answers 200.
func (e *Process) AwaitReady(t *testing.T) {
	t.Helper()
	deadline := time.After(startTimeout)
	ticker := time.NewTicker(20 * time.Millisecond) // Nothing tells when a port opens.
	defer ticker.Stop()
	for {
		if e.ready(t.Context()) {
			return
		}
		select {
		case <-e.done:
			t.Fatalf("windlass ended:\n%s", tail(e.Log(t)))
		case <-deadline:
			t.Fatalf("windlass was not ready for %s:\n%s", startTimeout, tail(e.Log(t)))
		case <-ticker.C:
		}
	}
}

func (e *Process) ready(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.Health+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// PID is the id of the process.
func (e *Process) PID() int { return e.command.Process.Pid }

// Signal sends the process a signal: SIGSTOP freezes it, SIGCONT continues it. It returns when a
// process that is frozen has stopped: its threads run on for a while after the signal.
func (e *Process) Signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := e.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	if signal != syscall.SIGSTOP {
		return
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(e.PID(), &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			t.Fatalf("the process has not stopped: %v, status %#x", err, status)
		}
		return
	}
}

// Kill ends the process at once, and returns when it has ended.
func (e *Process) Kill(t *testing.T) {
	t.Helper()
	if err := e.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	<-e.done
}

// Ended reports whether the process has ended.
func (e *Process) Ended() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// Log is what the process has written so far.
func (e *Process) Log(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(e.log)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// Client returns a client that trusts the process, and presents a certificate where there is one.
func (e *Process) Client(t *testing.T, identity *loopback.Identity) *http.Client {
	t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: e.Authority.Pool()}
	if identity != nil {
		config.Certificates = []tls.Certificate{identity.Pair(t)}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
}

// Hook is one of the names that a hook is registered under.
type Hook struct{ Hook, Handler string }

// The hooks that the extension serves.
var (
	CanUpdateMachine    = Hook{"CanUpdateMachine", "can-update-machine"}
	CanUpdateMachineSet = Hook{"CanUpdateMachineSet", "can-update-machine-set"}
	UpdateMachine       = Hook{"UpdateMachine", "update-machine"}

	BeforeClusterUpgrade      = Hook{"BeforeClusterUpgrade", "before-cluster-upgrade"}
	BeforeControlPlaneUpgrade = Hook{"BeforeControlPlaneUpgrade", "before-control-plane-upgrade"}
	AfterControlPlaneUpgrade  = Hook{"AfterControlPlaneUpgrade", "after-control-plane-upgrade"}
	BeforeWorkersUpgrade      = Hook{"BeforeWorkersUpgrade", "before-workers-upgrade"}
	AfterWorkersUpgrade       = Hook{"AfterWorkersUpgrade", "after-workers-upgrade"}
	AfterClusterUpgrade       = Hook{"AfterClusterUpgrade", "after-cluster-upgrade"}

	GenerateUpgradePlan = Hook{"GenerateUpgradePlan", "generate-upgrade-plan"}
)

// Path is where a server of hooks serves it.
func (h Hook) Path() string {
	return runtimecatalog.GVHToPath(runtimecatalog.GroupVersionHook{
		Group: runtimehooksv1.GroupVersion.Group, Version: runtimehooksv1.GroupVersion.Version, Hook: h.Hook,
	}, h.Handler)
}

// Answer has the fields that answers of hooks share.
type Answer struct {
	Status            runtimehooksv1.ResponseStatus `json:"status"`
	Message           string                        `json:"message"`
	RetryAfterSeconds int32                         `json:"retryAfterSeconds"`
}

// Call calls a hook as Cluster API does: the request gets its apiVersion and kind. It fails the test where there is no answer.
func (e *Process) Call(t *testing.T, hook Hook, request any) Answer {
	t.Helper()
	var answer Answer
	code, body, err := e.Post(t.Context(), e.client, e.Hooks+hook.Path(), named(t, hook, request))
	if err != nil || code != http.StatusOK {
		t.Fatalf("calling %s: %v: %d: %s", hook.Hook, err, code, body)
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%s answered %s: %v", hook.Hook, body, err)
	}
	return answer
}

// named sets the kind of a request.
func named(t *testing.T, hook Hook, request any) any {
	t.Helper()
	data, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	fields["apiVersion"], fields["kind"] = runtimehooksv1.GroupVersion.String(), hook.Hook+"Request"
	return fields
}

// Post posts JSON with a client, and returns the answer's status code and body. A json.RawMessage is
// sent unchanged.
func (e *Process) Post(ctx context.Context, c *http.Client, url string, body any) (int, []byte, error) {
	data, isRaw := body.(json.RawMessage)
	if !isRaw {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// tail returns the end of a log.
func tail(log string) string {
	const most = 20_000
	return log[max(0, len(log)-most):]
}

// FreePort returns an address of loopback that nobody listens on.
func FreePort(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(loopback.FreePort(t)))
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address) // The address is one of FreePort.
	return port
}

// Wait waits as long as an answer asks for: this is what Cluster API does before it calls again.
func (e *Process) Wait(t *testing.T, answer Answer) {
	t.Helper()
	select {
	case <-time.After(time.Duration(answer.RetryAfterSeconds) * time.Second):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
