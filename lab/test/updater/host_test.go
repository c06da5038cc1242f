//go:build linux

package updater

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
)

// printedCommand is the command that windlass-lab host prints for another terminal.
var printedCommand = regexp.MustCompile(`(?s)bin/windlass (updater kubeadm run .*? --dry-run)\n`)

// TestHostCommand starts a host as `make host` does, runs the command that it prints, and interrupts it.
func TestHostCommand(t *testing.T) {
	hosts.Require(t)
	paths := build(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	command := make(chan string, 1)
	out := &awaitedText{text: "its disk unchanged.", written: func() {}}
	out.written = func() {
		if found := printedCommand.FindStringSubmatch(out.all.String()); found != nil && len(command) == 0 {
			command <- found[1]
		}
	}
	host := exec.CommandContext(ctx, paths.Lab, "host", "--folder", t.TempDir())
	host.Cancel = func() error { return host.Process.Signal(os.Interrupt) }
	host.WaitDelay = time.Minute
	host.Stderr = out
	ended := make(chan error, 1)
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- host.Wait() }()
	select {
	case args := <-command:
		var stderr bytes.Buffer
		run := exec.CommandContext(t.Context(), paths.Windlass, strings.Fields(strings.ReplaceAll(args, "\\\n", " "))...)
		run.Stderr = &stderr
		if plan, err := run.Output(); err != nil || !strings.Contains(string(plan), "| kubeadm-upgrade ") {
			t.Errorf("%s: %v\n%s%s", args, err, plan, stderr.String())
		}
	case err := <-ended:
		t.Fatalf("the host ended: %v\n%s", err, out.all.String())
	}
	cancel()
	if err := <-ended; host.ProcessState.ExitCode() != 0 {
		t.Errorf("an interrupt ends it with %s: %v", host.ProcessState, err)
	}
}
