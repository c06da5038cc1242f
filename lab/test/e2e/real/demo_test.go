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
	if os.Getenv("WINDLASS_E2E") != "1" || os.Getenv("WINDLASS_LONG") != "1" {
		t.Skip("set WINDLASS_E2E=1 and WINDLASS_LONG=1 to upgrade a real cluster of six machines")
	}
	hosts.Require(t)
	paths, err := programs.Build()
	if err != nil {
		t.Fatal(err)
	}
	// The demo looks for it beside windlass-lab.
	if os.Getenv(programs.FolderVariable) == "" {
		runtime := filepath.Join(filepath.Dir(paths.Lab), programs.Runtime)
		if err := programs.Compile(t.Context(), "../../..", runtime, "./cmd/"+programs.Runtime); err != nil {
			t.Fatal(err)
		}
	}
	state := filepath.Join(t.TempDir(), "state")
	arguments := []string{"--windlass", paths.Windlass, "--source", repository, "--state-dir", state}
	t.Cleanup(func() {
		// Nothing runs if the demo has succeeded.
		down := exec.CommandContext(context.WithoutCancel(t.Context()), paths.Lab, append([]string{"down"}, arguments...)...)
		if output, err := down.CombinedOutput(); err != nil {
			t.Errorf("windlass-lab down: %v\n%s", err, output)
		}
	})
	output, err := exec.CommandContext(t.Context(), paths.Lab, append([]string{"demo", "--real"}, arguments...)...).CombinedOutput()
	t.Logf("windlass-lab demo --real\n%s", output)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"The observed operations are the planned ones.",
		"5 machines kept the UIDs of their Machine and their Node; the others were replaced, as planned.",
		"All are at the target: Kubernetes v1.36.3 with etcd ",
		"Each of the 3 members of etcd, asked alone, returns all ",
	} {
		if !strings.Contains(string(output), want) {
			t.Errorf("the report does not have %q", want)
		}
	}
	if n := len(regexp.MustCompile(`(?m)the same$`).FindAll(output, -1)); n != 5 {
		t.Errorf("%d machines are the same, want 5", n)
	}
	if n := len(regexp.MustCompile(`(?m)^\S+ +v1\.36\.3 +v1\.36\.3 +3\.`).FindAll(output, -1)); n != 3 {
		t.Errorf("%d control plane machines report the target, want 3", n)
	}
}
