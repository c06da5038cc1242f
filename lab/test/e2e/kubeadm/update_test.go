//go:build linux

package kubeadm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
)

const (
	// mirror is the folder on hosts with the programs of the release that they are upgraded to.
	mirror = "/opt/mirror"
	// Exit codes of the command.
	exitRefused, exitInterrupted = 3, 4
)

// addMirror adds the mirror to the options of a host.
func (w *world) addMirror(o *hosts.Options) {
	for _, program := range []string{"kubeadm", "kubelet"} {
		o.Links[mirror+"/"+w.mirrored(program)] = w.store.Program(w.to.Version, program)
	}
	o.Files[mirror+"/"+w.mirrored("kubectl")] = w.kubectl()
}

// mirrored is the path of a program in a mirror, and in a manifest of digests.
func (w *world) mirrored(program string) string {
	return fmt.Sprintf("%s/linux/amd64/%s", w.to.Version, program)
}

// kubectl is a program that may have any name. The one of the lab must be called kubectl.
func (w *world) kubectl() []byte {
	return fmt.Appendf(nil, "#!/bin/sh\nexec %s \"$@\"\n", w.store.Program(w.to.Version, "kubectl"))
}

// update is the command that a person upgrades a host with.
type update struct {
	machine *machine
	args    []string
	// see is called with each line as it is printed, unless it is nil.
	see func(updateLine)
}

// updateLine is a line of its output: the steps, a change, or why it ended early.
type updateLine struct {
	Steps []struct{ Step, State, What string }
	Step  string
	State string
	// Message tells what is waited for, among others.
	Message string
	Error   struct{ Rule, Message string }
}

// newUpdate writes the files that the command reads.
func (m *machine) newUpdate(ctx context.Context, t *testing.T) *update {
	t.Helper()
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubeconfig, err := m.Read("/etc/kubernetes/admin.conf")
	if err != nil {
		t.Fatal(err)
	}
	digests := m.run(ctx, t, "cd "+mirror+" && sha256sum */linux/*/*")
	return &update{machine: m, args: []string{
		"updater", "kubeadm", "run", "--host", m.Address(), "--to", m.world.to.Version.String(),
		"--identity", file("id", m.Key("root")), "--known-hosts", file("known_hosts", m.KnownHosts()),
		"--binaries-folder", mirror, "--digests", file("SHA256SUMS", []byte(digests)),
		"--kubeconfig", file("kubeconfig", kubeconfig), "--node", m.name, "--output", "json",
	}}
}

// run runs the command to its end, which must have an exit code, and returns what it prints.
func (u *update) run(ctx context.Context, t *testing.T, exit int, args ...string) []updateLine {
	t.Helper()
	cmd, stderr := u.command(ctx, args...)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	lines, err := u.read(io.TeeReader(pipe, &out))
	if err != nil {
		t.Errorf("reading what it prints: %v", err)
	}
	err = cmd.Wait()
	t.Logf("windlass updater kubeadm run %s\n%s%s", strings.Join(args, " "), &out, stderr)
	if code := cmd.ProcessState.ExitCode(); code != exit {
		t.Fatalf("%v: exit code %d, want %d: %v", cmd.Args, code, exit, err)
	}
	if strings.Contains(stderr.String(), "goroutine ") {
		t.Error("it prints a stack to standard error")
	}
	return lines
}

// read reads lines to the end.
func (u *update) read(from io.Reader) ([]updateLine, error) {
	var lines []updateLine
	for decoder := json.NewDecoder(from); ; {
		var line updateLine
		err := decoder.Decode(&line)
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			_, _ = io.Copy(io.Discard, from) // The command must not wait for its reader.
			return lines, err
		}
		lines = append(lines, line)
		if u.see != nil {
			u.see(line)
		}
	}
}

func (u *update) command(
	ctx context.Context, args ...string,
) (command *exec.Cmd, stderr *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, u.machine.world.windlass, append(slices.Clone(u.args), args...)...)
	stderr = &bytes.Buffer{}
	cmd.Stderr = stderr
	return cmd, stderr
}
