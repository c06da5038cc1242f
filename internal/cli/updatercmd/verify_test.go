package updatercmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUpdaterVerifyFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	updating := filepath.Join(dir, "updating")
	if err := os.WriteFile(updating, []byte("updateMachine: {desired: {machine: {metadata: {namespace: a, name: b}}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args  []string
		words string
	}{
		{[]string{"verify"}, "URL: it is missing. Fix: give the https URL that the updater listens at"},
		{[]string{"verify", "https://a", "https://b"}, "URL: there can be one only"},
		{[]string{"verify", "http://127.0.0.1"}, "https only"},
		{[]string{"verify", "https://127.0.0.1", "-o", "xml"}, `--output "xml" is unknown`},
		{[]string{"verify", "https://127.0.0.1", "--ca-file", filepath.Join(dir, "none")}, "reading the CA"},
		{[]string{"verify", "https://127.0.0.1", "--ca-file", bad}, "the CA bundle holds no certificate"},
		{[]string{"verify", "https://127.0.0.1", "--fixture", bad}, "reading the fixture"},
		{[]string{"verify", "https://127.0.0.1", "--allow-updates"}, "the fixture must have updateMachine"},
		{[]string{"verify", "https://127.0.0.1", "--restart-command", "true"}, "--restart-command does nothing without --allow-updates"},
		{[]string{"verify", "https://127.0.0.1", "--protocol", "hooks"}, `--protocol "hooks" is unknown; use "RuntimeHooks" or "HandOver"`},
		{[]string{"verify", "https://127.0.0.1", "--protocol", "HandOver", "--fixture", updating, "--allow-updates", "--kubeconfig", bad}, "kubeconfig"},
		{[]string{"verify", "https://127.0.0.1", "--insecure"}, "unknown flag: --insecure"},
	} {
		cmd := New()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetErr(&bytes.Buffer{})
		cmd.SetArgs(tt.args)
		if err := cmd.ExecuteContext(t.Context()); !strings.Contains(fmt.Sprint(err), tt.words) {
			t.Errorf("%v: the error is %v, want %q", tt.args, err, tt.words)
		}
	}
}
