//go:build linux

package hosts_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// exitInterrupted is the exit code of a run that was interrupted.
	exitInterrupted = 4
	// showKubelet tells whether the kubelet is the same process as before.
	showKubelet = "systemctl show --property MainPID kubelet"
)

// runLine is a line of "windlass updater kubeadm run -o json": the steps, a change, or why it ended early.
type runLine struct {
	Steps []struct{ Step, State, What string }
	Step  string
	State string
	Error struct{ Rule, Message string }
}

// testWorker upgrades a worker without Cluster API, with the command that a person would use, through a power cut.
func (p *plane) testWorker(ctx context.Context, t *testing.T) {
	t.Helper()
	m := p.newMachine(ctx, t, "worker")
	pod := m.addPod(ctx, t)
	run := m.newRun(t)

	files := m.files(ctx, t)
	lines := run.complete(ctx, t, "--dry-run")
	if len(lines) != 1 || !slices.ContainsFunc(lines[0].Steps, func(s struct{ Step, State, What string }) bool {
		return s.Step == "kubeadm-upgrade" && s.State == "to do" && strings.HasPrefix(s.What, "run kubeadm upgrade node")
	}) {
		t.Errorf("a dry run printed %+v", lines)
	}
	if after := m.files(ctx, t); after != files {
		t.Errorf("a dry run changed files on the host: %s", firstDifference(files, after))
	}
	if node := m.awaitNode(ctx, t, p.from.version); node.Spec.Unschedulable {
		t.Error("a dry run cordoned the Node")
	}

	run.untilPowerCut(ctx, t, "kubeadm-upgrade")
	m.Boot()
	lines = run.complete(ctx, t)
	if !isToDo(lines[0], "restart") || isToDo(lines[0], "fetch-kubelet") {
		t.Errorf("after the power cut, these steps were left: %+v", lines[0].Steps)
	}
	m.checkUpgraded(ctx, t, clusterMaxPods)
	if err := p.client.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("the node was drained, but its pod is still there: %v", err)
	}

	files = m.files(ctx, t)
	kubelet := m.run(ctx, t, showKubelet)
	lines = run.complete(ctx, t)
	for _, step := range lines[0].Steps {
		if step.State != "done" {
			t.Errorf("when all is done, step %s is %s", step.Step, step.State)
		}
	}
	for _, line := range lines[1:] {
		if line.Step != "" {
			t.Errorf("when all was done, step %s was %s", line.Step, line.State)
		}
	}
	if after := m.files(ctx, t); after != files {
		t.Errorf("a run with nothing to do changed files on the host: %s", firstDifference(files, after))
	}
	if after := m.run(ctx, t, showKubelet); after != kubelet {
		t.Errorf("a run with nothing to do restarted the kubelet: %s, was %s", after, kubelet)
	}
}

func isToDo(plan runLine, step string) bool {
	for _, s := range plan.Steps {
		if s.Step == step {
			return s.State == "to do"
		}
	}
	return false
}

// firstDifference is the first line of after that before has not.
func firstDifference(before, after string) string {
	known := strings.Split(before, "\n")
	for line := range strings.SplitSeq(after, "\n") {
		if !slices.Contains(known, line) {
			return line
		}
	}
	return "some are gone"
}

// run is the command that upgrades a machine.
type run struct {
	machine *machine
	args    []string
}

// newRun writes the files that the command reads.
func (m *machine) newRun(t *testing.T) *run {
	t.Helper()
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return &run{machine: m, args: []string{
		"updater", "kubeadm", "run", "--host", m.Address(), "--to", m.plane.to.version.String(), "--output", "json",
		"--identity", file("id", m.Key("root")), "--known-hosts", file("known_hosts", m.KnownHosts()),
		"--binaries-folder", mirror, "--digests", file("SHA256SUMS", []byte(m.plane.to.digests())),
		"--kubeconfig", m.plane.KubeconfigPath(), "--node", m.name, "--ignore-preflight-errors", "SystemVerification",
	}}
}

func (r *run) command(ctx context.Context, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	cmd = exec.CommandContext(ctx, r.machine.plane.Windlass, append(slices.Clone(r.args), args...)...)
	stderr = &bytes.Buffer{}
	cmd.Stderr = stderr
	return cmd, stderr
}

// complete runs the command to its end, and gives what it printed.
func (r *run) complete(ctx context.Context, t *testing.T, args ...string) []runLine {
	t.Helper()
	cmd, stderr := r.command(ctx, args...)
	// What is wrong shows in the exit code.
	out, _ := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("windlass %s: exit code %d\n%s\n%s", strings.Join(cmd.Args[1:], " "), code, out, stderr)
	}
	t.Logf("windlass updater kubeadm run %s\n%s%s", strings.Join(args, " "), out, stderr)
	lines, err := decodeLines(bytes.NewReader(out))
	if err != nil || len(lines) == 0 {
		t.Fatalf("it printed %d lines: %v\n%s", len(lines), err, out)
	}
	return lines
}

func decodeLines(r io.Reader) ([]runLine, error) {
	var lines []runLine
	for decoder := json.NewDecoder(r); ; {
		var line runLine
		if err := decoder.Decode(&line); err == io.EOF {
			return lines, nil
		} else if err != nil {
			return lines, err
		}
		lines = append(lines, line)
	}
}

// untilPowerCut cuts the host's power when the command says that a step runs, and interrupts the command.
func (r *run) untilPowerCut(ctx context.Context, t *testing.T, step string) {
	t.Helper()
	cmd, stderr := r.command(ctx)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cut := false
	var line runLine
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		line = runLine{}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("it printed %q: %v", lines.Text(), err)
		}
		if line.Step == step && line.State == "running" && !cut {
			cut = true
			r.machine.PowerCut()
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	}
	err = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); !cut || code != exitInterrupted {
		t.Fatalf("the power was cut in step %s: %t; exit code %d: %v\n%s", step, cut, code, err, stderr)
	}
	if want := fmt.Sprintf("step %s continues on the host", step); line.Error.Rule != "Unfinished" || !strings.Contains(line.Error.Message, want) {
		t.Errorf("interrupted, it says %+v, want that %s", line.Error, want)
	}
}
