package devplane_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// TestCommands goes through windlass-lab as a user does.
func TestCommands(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	state := filepath.Join(t.TempDir(), "state")
	run := func(wantErr bool, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), b.Lab, append([]string{"--state-dir", state}, args...)...)
		cmd.Dir = filepath.Join(b.source, "internal") // anywhere in the clone
		out, err := cmd.CombinedOutput()
		if (err != nil) != wantErr {
			t.Fatalf("windlass-lab %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	contains := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%q is missing in:\n%s", part, text)
			}
		}
	}

	contains(run(true, "status"), "no management cluster is running on "+state)
	contains(run(false, "down"), "No cluster is running")
	contains(run(false, "up"), "starting the managers", "The cluster is up after", "export KUBECONFIG="+state+"/kubeconfig")
	t.Cleanup(func() {
		// For a test that has failed half-way; otherwise there is nothing left to do. Its context has ended by now.
		_ = exec.Command(b.Lab, "--state-dir", state, "down").Run()
	})
	contains(run(false, "up"), "The cluster is running already")
	contains(run(false, "status"), "Running", devplane.InMemoryManager, "MiB")
	var status devplane.Status
	if err := json.Unmarshal([]byte(run(false, "status", "-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	if status.Phase != devplane.PhaseRunning || !status.Detached || len(status.Children) != 6 {
		t.Errorf("status is %+v", status)
	}
	contains(run(false, "kubectl", "--", "get", "crd", "-o", "name"), "clusters.cluster.x-k8s.io", "devmachines.infrastructure.cluster.x-k8s.io")
	contains(run(false, "kubectl", "--", "get", "extensionconfig", "windlass", "-o", `jsonpath={.status.conditions[?(@.type=="Discovered")].status}`), "True")
	contains(run(false, "kubectl", "--", "get", "validatingwebhookconfiguration", "-o", "name"), "windlass-guard")
	contains(run(false, "updater", "kubelet", "--max-minors", "1"), "Updater kubelet runs and is registered")
	contains(run(true, "updater", "kubelet"), "there is an updater \"kubelet\" already")
	contains(run(false, "updater", "--list"), "kubelet", "true")
	contains(run(false, "status"), "updater-kubelet")
	contains(run(true, "updater", "kubelet", "--behaviour", `{"updater": {"mode": "Wrong"}}`), `the mode "Wrong" is unknown`)
	contains(run(false, "updater", "kubelet", "--delete"), "Updater kubelet is deleted")
	contains(run(false, "updater", "--list"), "No updater is registered")
	contains(run(false, "updater", "kubelet", "--claims", "bootstrap:/spec/files"), "Updater kubelet runs and is registered")
	contains(run(false, append([]string{"updater", "mine", "--protocol", "HandOver", "--"}, handOver(t)...)...), "Updater mine runs and is registered")
	contains(run(false, "kubectl", "--", "get", "updater", "mine", "-o", "jsonpath={.spec.remote.protocol}"), "HandOver")
	contains(run(true, "kubectl", "--", "get", "clusters", "none"), "NotFound")
	contains(run(false, "kubectl", "--", "version"), "Server Version: v1.36.3")
	contains(run(false, "logs", devplane.CoreManager), "Starting manager")
	contains(run(true, "logs", "nobody"), "there are logs of "+devplane.APIServer)
	contains(run(true, "status", "-o", "xml"), "use table or json")
	contains(run(false, "down"), "stopped and its state is removed")
	if left := running(status); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if _, err := os.Stat(state); err == nil {
		t.Error("the state is left")
	}
}

// handOver builds examples/handover, and returns its command on a plane, with an inventory of no machines.
func handOver(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	program, inventory := filepath.Join(dir, "handover"), filepath.Join(dir, "inventory.json")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "github.com/windlass-dev/windlass/examples/handover")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the example: %v\n%s", err, output)
	}
	if err := os.WriteFile(inventory, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{
		program, "--port", "$(PORT_hooks)", "--cert-dir", "$(CERT_DIR)", "--kubeconfig", "$(KUBECONFIG)",
		"--inventory", inventory, "--state-dir", filepath.Join(dir, "state"),
	}
}
