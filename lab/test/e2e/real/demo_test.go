//go:build linux

package real_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/programs"
)

// TestDemo runs "windlass-lab demo --real", and reads its report.
func TestDemo(t *testing.T) {
	output := runLab(t, "demo", "--real")
	expect(t, output,
		"The observed operations are the planned ones.",
		"5 machines kept the UIDs of their Machine and their Node; the others were replaced, as planned.",
		"All are at the target: Kubernetes v1.36.3 with etcd ",
		"Each of the 3 members of etcd, asked alone, returns all ",
	)
	if n := len(regexp.MustCompile(`(?m)the same$`).FindAllString(output, -1)); n != 5 {
		t.Errorf("%d machines are the same, want 5", n)
	}
	if n := len(
		regexp.MustCompile(`(?m)^\S+ +v1\.36\.3 +v1\.36\.3 +3\.`).FindAllString(output, -1),
	); n != 3 {
		t.Errorf("%d control plane machines report the target, want 3", n)
	}
}

// TestRehearse has "windlass-lab rehearse --real" upgrade a user's cluster on hosts.
func TestRehearse(t *testing.T) {
	output := runLab(t, "rehearse", "--real", "-f", "testdata/user", "--to", "v1.36.3")
	expect(t, output,
		"Note: infrastructure is on this machine: HostCluster and HostMachine stand for AcmeCluster and AcmeMachine",
		"Note: preKubeadmCommands of a kubeadm config is left out: ",
		"Note: the argument cloud-provider is left out: ",
		"Note: patch zone is left out where it is about infrastructure",
		"The observed operations are the planned ones.",
		"All machines were replaced, as planned.",
		"All are at the target: Kubernetes v1.36.3 with etcd ",
		"The only member of etcd returns all ",
	)
}

// runLab runs windlass-lab, which must succeed and leave nothing running, and returns what it
// prints.
func runLab(t *testing.T, verb string, args ...string) string {
	t.Helper()
	if os.Getenv("WINDLASS_E2E") != "1" || os.Getenv("WINDLASS_LONG") != "1" {
		t.Skip("set WINDLASS_E2E=1 and WINDLASS_LONG=1 to upgrade a real cluster by windlass-lab")
	}
	hosts.Require(t)
	paths, err := programs.Build()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(programs.FolderVariable) == "" {
		// windlass-lab looks for it in its own folder.
		runtime := filepath.Join(filepath.Dir(paths.Lab), programs.Runtime)
		if err := programs.Compile(
			t.Context(), "../../..", runtime, "./cmd/"+programs.Runtime,
		); err != nil {
			t.Fatal(err)
		}
	}
	state := filepath.Join(t.TempDir(), "state")
	common := []string{"--windlass", paths.Windlass, "--source", repository, "--state-dir", state}
	t.Cleanup(func() {
		// Something runs only if the command was killed.
		down := exec.CommandContext(
			context.WithoutCancel(t.Context()), paths.Lab, append([]string{"down"}, common...)...,
		)
		if output, err := down.CombinedOutput(); err != nil {
			t.Errorf("windlass-lab down: %v\n%s", err, output)
		}
	})
	output, err := exec.CommandContext(
		t.Context(), paths.Lab, append(append([]string{verb}, common...), args...)...,
	).CombinedOutput()
	t.Logf("windlass-lab %s %s\n%s", verb, strings.Join(args, " "), output)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(state + "/*"); err != nil || len(left) > 0 {
		t.Errorf("the state directory still has %q: %v", left, err)
	}
	return string(output)
}

func expect(t *testing.T, output string, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(output, want) {
			t.Errorf("the output does not have %q", want)
		}
	}
}
