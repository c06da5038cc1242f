package cloudconfig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBootKeepsSecrets runs the script on a folder. Files have their modes before their content,
// the log is for root, and the result of a failure has no token.
func TestBootKeepsSecrets(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is missing")
	}
	const token = "abcdef.0123456789abcdef"
	dir := t.TempDir()
	at := func(path string) string { return filepath.Join(dir, path) }
	write := func(path, content string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	config := Config{
		Files: []File{
			{Path: at("pki/new/ca.key"), Mode: 0o600, Content: []byte("new")},
			{Path: at("old.key"), Mode: 0o600, Content: []byte("newer")},
			{Path: at("more"), Mode: 0o640, Content: []byte("two\n"), Append: true},
		},
		RunCommands: []Command{"echo kubeadm join 10.0.0.1:6443 --token " + token, "false"},
	}
	write(at("old.key"), "old", 0o644)
	write(at("more"), "one\n", 0o600)
	folders := strings.NewReplacer(folder, at("cloud"), LogPath, at("log"), sentinel, at("sentinel"))
	for path, content := range config.Bundle() {
		if name, ok := strings.CutPrefix(path, folder); ok {
			write(at("cloud"+name), folders.Replace(string(content)), 0o600)
		}
	}
	// Nobody but root can change owners.
	write(at("bin/chown"), "#!/bin/sh\n", 0o755)
	write(at("bin/cat"), "#!/bin/sh\nmode=$(stat -L -c %a /proc/$$/fd/1)\n"+
		"echo $mode >>"+at("modes")+"\nexec /bin/cat \"$@\"\n", 0o755)
	boot := exec.CommandContext(t.Context(), bash, "-c", "umask 022; . "+at("cloud/boot"))
	boot.Env = append(os.Environ(), "PATH="+at("bin")+":"+os.Getenv("PATH"))
	if out, err := boot.CombinedOutput(); err == nil {
		t.Errorf("it succeeds: %s", out)
	}
	for path, want := range map[string]string{
		"modes": "600\n600\n640\n", "pki/new/ca.key": "new", "old.key": "newer", "more": "one\ntwo\n",
	} {
		if got, err := os.ReadFile(at(path)); string(got) != want {
			t.Errorf("%s has %q, want %q; %v", path, got, want, err)
		}
	}
	if info, err := os.Stat(at("log")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the log: %v, %v", info, err)
	}
	if info, err := os.Stat(at("pki/new")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the folder of a file: %v, %v", info, err)
	}
	result, err := os.ReadFile(at("cloud/result"))
	if err != nil || !strings.Contains(string(result), token) {
		t.Fatalf("the result is %q, %v", result, err)
	}
	state, message := ParseResult(string(result))
	if state != Failed || strings.Contains(message, token) ||
		!strings.Contains(message, "kubeadm join 10.0.0.1:6443") {
		t.Errorf("%s: %s", state, message)
	}
}
