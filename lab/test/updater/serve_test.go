package updater

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/conformance"
	"github.com/windlass-dev/windlass/internal/updaterserver/servertest"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/test/loopback"
)

// A management cluster that nobody has to be asked for in this test.
const kubeconfigOfNobody = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
current-context: c
`

// A change that nobody claims.
const unclaimedFixture = `
canUpdateMachine:
  current: {machine: {apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, spec: {version: v1.31.0, failureDomain: a}}}
  desired: {machine: {apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, spec: {version: v1.31.0, failureDomain: b}}}
`

// execute runs a program's command `updater`. ctx interrupts it.
func execute(ctx context.Context, program string, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, append([]string{"updater"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func build(t *testing.T) programs.Paths {
	t.Helper()
	paths, err := programs.Build()
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// serve runs `windlass-lab updater serve` until the test ends.
func serve(t *testing.T, lab, dir string, args ...string) (url string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), []byte(kubeconfigOfNobody), 0o600); err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(loopback.FreePort(t))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, stderr, err := execute(ctx, lab, append([]string{
			"serve", "--kubeconfig", filepath.Join(dir, "kubeconfig"), "--cert-dir", dir, "--bind-address", "127.0.0.1", "--port", port,
		}, args...)...)
		if ctx.Err() == nil {
			t.Errorf("serving ended: %v\n%s", err, stderr)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(2 * time.Minute); ; {
		if connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", "127.0.0.1:"+port); err == nil {
			_ = connection.Close()
			return "https://127.0.0.1:" + port
		}
		select {
		case <-ticker.C:
		case <-done:
			t.FailNow()
		case <-deadline:
			t.Fatal("it does not listen")
		}
	}
}

// TestServeAndVerify serves the simulated updater, verifies it, and makes it misbehave.
func TestServeAndVerify(t *testing.T) {
	t.Parallel()
	paths := build(t)
	dir := t.TempDir()
	caFile, socket := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "control")
	if err := os.WriteFile(caFile, servertest.WriteCertificate(t, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	url := serve(t, paths.Lab, dir, "--stats-addr", "unix:"+socket, "--state", filepath.Join(dir, "state"), "--claims", "machine:/spec/version,bootstrap:/spec/files")

	out, _, err := execute(t.Context(), paths.Windlass, "verify", url, "--ca-file", caFile)
	if err != nil || !strings.Contains(out, "pass     can-update-machine-set.patches: ") || !strings.HasSuffix(out, "\n20 passed, 0 failed, 7 skipped\n") {
		t.Errorf("the error is %v, the report\n%s", err, out)
	}

	nothing := filepath.Join(dir, "nothing.yaml")
	if err := os.WriteFile(nothing, []byte(unclaimedFixture), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err = execute(t.Context(), paths.Windlass, "verify", url, "--ca-file", caFile, "--fixture", nothing)
	if err != nil || !strings.Contains(out, "\nwarning: CanUpdateMachine covered nothing of the fixture: use --fixture with changes that yours covers\n\n") {
		t.Errorf("the error is %v, the report\n%s", err, out)
	}

	control := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://control/behaviour", strings.NewReader(`{"updater":{"mode":"WrongAnswer"}}`))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := control.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if _ = answer.Body.Close(); answer.StatusCode != http.StatusNoContent {
		t.Fatalf("changing the behaviour got %s", answer.Status)
	}
	out, _, err = execute(t.Context(), paths.Windlass, "verify", url, "--ca-file", caFile, "-o", "json")
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != int(cli.ExitFailure) {
		t.Errorf("with wrong answers the error is %v", err)
	}
	var report conformance.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if got := report.Count(conformance.Fail); got != 6 {
		t.Errorf("%d points failed:\n%s", got, out)
	}
}

func TestServeFlags(t *testing.T) {
	t.Parallel()
	paths := build(t)
	dir := t.TempDir()
	servertest.WriteCertificate(t, dir)
	kubeconfig, bad := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "bad")
	for name, content := range map[string]string{kubeconfig: kubeconfigOfNobody, bad: "["} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := []string{"serve", "--cert-dir", dir, "--kubeconfig", kubeconfig}
	for _, tt := range []struct {
		args  []string
		words string
	}{
		{[]string{"serve"}, `required flag(s) "cert-dir" not set`},
		{[]string{"serve", "--cert-dir", filepath.Join(dir, "none")}, "--cert-dir must hold tls.crt and tls.key"},
		{[]string{"serve", "--cert-dir", dir, "--kubeconfig", bad}, "use --kubeconfig and --context"},
		{append(flags, "--port", "0"), "port 0 is not between"},
		{append(flags, "--claims", "node:/spec/a"), `the claim "node:/spec/a"`},
		{append(flags, "--failure-rate", "2"), "the failure rate 2"},
		{append(flags, "--duration", "-1s"), "the duration -1s"},
		{append(flags, "--state", bad), "reading the state file"},
		{append(flags, "--stats-addr", "0.0.0.0:0"), "is not on loopback"},
		{append(flags, "-v", "11"), "--verbosity 11"},
	} {
		// A command that does not refuse would serve until then.
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		_, stderr, _ := execute(ctx, paths.Lab, tt.args...)
		cancel()
		if !strings.Contains(stderr, tt.words) {
			t.Errorf("%v: it prints %s, want %q", tt.args, stderr, tt.words)
		}
	}
}
