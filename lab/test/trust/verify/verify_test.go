//go:build linux

package verify

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/cert"

	"github.com/windlass-dev/windlass/lab/internal/programs"
)

const (
	// root is the repository's root.
	root = "../../../.."
	// port is where the extension listens, in a network namespace of its own.
	port = "9443"
	// timeout bounds the start of the extension and the battery; each takes a few seconds.
	timeout = 2 * time.Minute
)

// TestUpstreamExtension verifies Cluster API's test extension, built from its module without a change. No point may fail. It
// marshals typed Go objects, so that its patches have /status.
func TestUpstreamExtension(t *testing.T) {
	t.Parallel()
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to build Cluster API's test extension and run it")
	}
	dir := t.TempDir()
	windlass, extension := filepath.Join(dir, "windlass"), filepath.Join(dir, "extension")
	err := errors.Join(
		programs.Compile(t.Context(), root, windlass, "./cmd/windlass"),
		programs.Compile(t.Context(), filepath.Join(root, programs.TestExtensionModule), extension, programs.TestExtension),
	)
	if err != nil {
		t.Fatal(err)
	}
	ca := writeFiles(t, dir)
	pid := start(t, extension, dir)

	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	verify := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(pid), "--net", "--",
		windlass, "updater", "verify", "https://127.0.0.1:"+port, "--ca-file", ca, "--output", "json")
	var stderr bytes.Buffer
	verify.Stderr = &stderr
	output, err := verify.Output()
	if err != nil {
		t.Errorf("windlass updater verify: %v\n%s", err, stderr.String())
	}
	var report struct {
		Points []struct {
			ID, Status, Reason string
		}
		Warnings []string
	}
	if err := json.Unmarshal(output, &report); err != nil {
		t.Fatalf("reading the report: %v\n%s", err, output)
	}
	counted := map[string]int{}
	for _, point := range report.Points {
		counted[point.Status]++
		if point.Status == "fail" {
			t.Errorf("%s fails: %s", point.ID, point.Reason)
		}
	}
	// The seven points of UpdateMachine need --allow-updates.
	if diff := cmp.Diff(map[string]int{"pass": 20, "skipped": 7}, counted); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
	if len(report.Warnings) != 2 {
		t.Errorf("there are %d warnings, want one for each hook that decides: %q", len(report.Warnings), report.Warnings)
	}
	for _, warning := range report.Warnings {
		if !strings.Contains(warning, "InfrastructureMachine /status") {
			t.Errorf("the warning %q does not name /status", warning)
		}
	}
}

// writeFiles writes a serving certificate and a kubeconfig, and returns the file with the CA. Nothing listens where the kubeconfig
// leads: the extension's decisions need no API server.
func writeFiles(t *testing.T, dir string) (ca string) {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := `{"apiVersion": "v1", "kind": "Config", "current-context": "none", "users": [{"name": "none", "user": {}}],
		"clusters": [{"name": "none", "cluster": {"server": "https://127.0.0.1:1"}}],
		"contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}]}`
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key, "kubeconfig": []byte(kubeconfig)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "tls.crt")
}

// start runs the extension in a network namespace of its own, because it listens on all interfaces. It returns once the
// extension serves hooks.
func start(t *testing.T, extension, dir string) (pid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network namespace for the extension needs root")
	}
	command := exec.CommandContext(t.Context(), "sh", "-c", `ip link set lo up && exec "$0" "$@"`, extension,
		"--kubeconfig", filepath.Join(dir, "kubeconfig"), "--webhook-cert-dir", dir, "--webhook-port", port,
		"--health-addr", "127.0.0.1:9440", "--diagnostics-address", "127.0.0.1:8443", "--insecure-diagnostics")
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	log, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("starting the extension: %v", err)
	}
	serves, ended := make(chan struct{}), make(chan string, 1)
	go func() { ended <- awaitServing(bufio.NewScanner(log), serves) }()
	t.Cleanup(func() {
		_ = command.Process.Kill() // It may have ended.
		<-ended
		_ = command.Wait() // It was killed.
	})
	select {
	case <-serves:
	case last := <-ended:
		ended <- last
		t.Fatalf("the extension ended; its last line was %q", last)
	case <-time.After(timeout):
		t.Fatalf("the extension did not serve within %s", timeout)
	}
	return command.Process.Pid
}

// awaitServing reads a log to its end, and closes serves at the line that tells that the webhook server listens. It returns
// the last line.
func awaitServing(lines *bufio.Scanner, serves chan<- struct{}) (last string) {
	told := false
	for lines.Scan() {
		last = lines.Text()
		if !told && strings.Contains(last, "Serving webhook server") {
			told = true
			close(serves)
		}
	}
	return last
}
