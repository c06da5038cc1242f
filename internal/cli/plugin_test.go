package cli

import (
	"bytes"
	"os"
	"testing"

	"github.com/spf13/cobra"
)

func TestRenamer(t *testing.T) {
	t.Parallel()
	r := newRenamer("tool", []string{"plan", "status"})
	for text, want := range map[string]string{
		"tool plan x":                     "kubectl tool plan x",
		"see `tool status x`":             "see `kubectl tool status x`",
		"\n  tool plan a\n  tool plan b":  "\n  kubectl tool plan a\n  kubectl tool plan b",
		"kubectl tool plan x":             "kubectl tool plan x",
		"the plan of tool planned x":      "the plan of tool planned x",
		"tool manager runs":               "tool manager runs",
		"/opt/tool plan, a.tool status":   "/opt/tool plan, a.tool status",
		"my-tool plan, Tool plan, mytool": "my-tool plan, Tool plan, mytool",
	} {
		if got := string(r.rename([]byte(text))); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestNameAsPlugin(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{
		"/usr/bin/tool": "tool", "tool": "tool", "kubectl-other": "tool", "/x/kubectl-tool": "kubectl tool",
		"kubectl-tool.exe": "kubectl tool",
	} {
		root := &cobra.Command{Use: "tool"}
		root.AddCommand(&cobra.Command{Use: "plan"}, &cobra.Command{Use: "manager"})
		NameAsPlugin(root, program, nil, "manager")
		if got := root.CommandPath(); got != want {
			t.Errorf("%s calls itself %q, want %q", program, got, want)
		}
	}
}

// TestRenamedCount: a writer returns how much of its input it has written.
func TestRenamedCount(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := &renamed{Writer: &out, renamer: newRenamer("tool", []string{"plan"})}
	if n, err := w.Write([]byte("tool plan")); n != len("tool plan") || err != nil || out.String() != "kubectl tool plan" {
		t.Errorf("%d, %v: %q", n, err, out.String())
	}
	if Terminal(&renamed{Writer: os.Stdout}) != Terminal(os.Stdout) {
		t.Error("a terminal is not found behind the renamer")
	}
}
