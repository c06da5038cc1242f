package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/conformance"
	"github.com/windlass-dev/windlass/internal/updaterserver/servertest"
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

// executeUpdater runs windlass updater in this process.
func executeUpdater(ctx context.Context, args ...string) (out string, err error) {
	var stdout bytes.Buffer
	cmd := newUpdaterCommand() //nolint:contextcheck // ExecuteContext hands it over.
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(&stdout)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(ctx)
	return stdout.String(), err
}

// serveUpdater runs `windlass updater serve` until the test ends.
func serveUpdater(t *testing.T, dir string, args ...string) (url string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), []byte(kubeconfigOfNobody), 0o600); err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(loopback.FreePort(t))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() {
		_, err := executeUpdater(ctx, append([]string{"serve", "--kubeconfig", filepath.Join(dir, "kubeconfig"), "--cert-dir", dir,
			"--bind-address", "127.0.0.1", "--port", port}, args...)...)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serving ended with %v", err)
		}
	})
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(30 * time.Second); ; {
		if connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", "127.0.0.1:"+port); err == nil {
			_ = connection.Close()
			return "https://127.0.0.1:" + port
		}
		select {
		case <-ticker.C:
		case err := <-done:
			done <- nil
			t.Fatalf("serving ended at once: %v", err)
		case <-deadline:
			t.Fatal("it does not listen")
		}
	}
}

// TestUpdaterServeAndVerify serves the simulated updater, verifies it, and makes it misbehave.
func TestUpdaterServeAndVerify(t *testing.T) { //nolint:paralleltest // Logs are set for the whole process.
	dir := t.TempDir()
	caFile, socket := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "control")
	if err := os.WriteFile(caFile, servertest.WriteCertificate(t, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	url := serveUpdater(t, dir, "--stats-addr", "unix:"+socket, "--state", filepath.Join(dir, "state"), "--claims", "machine:/spec/version,bootstrap:/spec/files")

	out, err := executeUpdater(t.Context(), "verify", url, "--ca-file", caFile)
	if err != nil || !strings.Contains(out, "pass     can-update-machine-set.patches: ") || !strings.HasSuffix(out, "\n20 passed, 0 failed, 7 skipped\n") {
		t.Errorf("the error is %v, the report\n%s", err, out)
	}

	nothing := filepath.Join(dir, "nothing.yaml")
	if err := os.WriteFile(nothing, []byte(unclaimedFixture), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = executeUpdater(t.Context(), "verify", url, "--ca-file", caFile, "--fixture", nothing)
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
	out, err = executeUpdater(t.Context(), "verify", url, "--ca-file", caFile, "-o", "json")
	coded, ok := errors.AsType[*exitError](err)
	if !ok || coded.code != exitFailure || !coded.silent {
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

func TestUpdaterFlags(t *testing.T) { //nolint:paralleltest // Logs are set for the whole process.
	dir := t.TempDir()
	servertest.WriteCertificate(t, dir)
	kubeconfig, bad := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "bad")
	for name, content := range map[string]string{kubeconfig: kubeconfigOfNobody, bad: "["} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	serve := []string{"serve", "--cert-dir", dir, "--kubeconfig", kubeconfig}
	for _, tt := range []struct {
		args  []string
		words string
	}{
		{[]string{"serve"}, `required flag(s) "cert-dir" not set`},
		{[]string{"serve", "--cert-dir", filepath.Join(dir, "none")}, "--cert-dir must hold tls.crt and tls.key"},
		{[]string{"serve", "--cert-dir", dir, "--kubeconfig", bad}, "use --kubeconfig and --context"},
		{append(serve, "--kind", "real"), `--kind "real" is unknown`},
		{append(serve, "--port", "0"), "port 0 is not between"},
		{append(serve, "--claims", "node:/spec/a"), `the claim "node:/spec/a"`},
		{append(serve, "--failure-rate", "2"), "the failure rate 2"},
		{append(serve, "--duration", "-1s"), "the duration -1s"},
		{append(serve, "--state", bad), "reading the state file"},
		{append(serve, "--stats-addr", "0.0.0.0:0"), "is not on loopback"},
		{append(serve, "-v", "11"), "--verbosity 11"},
		{[]string{"verify"}, "URL: it is missing; give the https URL that the updater listens at"},
		{[]string{"verify", "https://a", "https://b"}, "URL: there can be one only"},
		{[]string{"verify", "http://127.0.0.1"}, "https only"},
		{[]string{"verify", "https://127.0.0.1", "-o", "xml"}, `--output "xml" is unknown`},
		{[]string{"verify", "https://127.0.0.1", "--ca-file", filepath.Join(dir, "none")}, "reading the CA"},
		{[]string{"verify", "https://127.0.0.1", "--ca-file", bad}, "the CA bundle holds no certificate"},
		{[]string{"verify", "https://127.0.0.1", "--fixture", bad}, "reading the fixture"},
		{[]string{"verify", "https://127.0.0.1", "--allow-updates"}, "the fixture must have updateMachine"},
		{[]string{"verify", "https://127.0.0.1", "--restart-command", "true"}, "--restart-command does nothing without --allow-updates"},
		{[]string{"verify", "https://127.0.0.1", "--insecure"}, "unknown flag: --insecure"},
	} {
		// A command that does not refuse would serve until then.
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		_, err := executeUpdater(ctx, tt.args...)
		cancel()
		if !strings.Contains(fmt.Sprint(err), tt.words) {
			t.Errorf("%v: the error is %v, want %q", tt.args, err, tt.words)
		}
	}
}
