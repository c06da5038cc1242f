package upgradecmd

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/cli"
)

// TestUpgradeJSON checks that each line is JSON about one change.
func TestUpgradeJSON(t *testing.T) {
	r := startUpgrade(t, "machine", "m-1", "--to", upgradePatch, "-o", "json")
	var got map[string]any
	read := func() {
		t.Helper()
		if !r.lines.Scan() {
			t.Fatalf("the output ends: %v", <-r.ended)
		}
		got = nil
		if err := yaml.Unmarshal(r.lines.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
	}
	read()
	machine, _ := got["machine"].(map[string]any)
	if got["time"] != "2026-01-01T00:00:00Z" || machine["state"] != "Asked" || machine["option"] != upgradePatch {
		t.Errorf("the first line is %v", got)
	}
	r.machine("m-1", state, "failed", upgradeRecord, phase("Failed"))
	read()
	if machine, _ = got["machine"].(map[string]any); machine["state"] != "Failed" || machine["message"] != "the disk is full" {
		t.Errorf("the second line is %v", got)
	}
	read()
	if failure, _ := got["error"].(map[string]any); failure["rule"] != cli.RuleRefused {
		t.Errorf("the last line is %v, want an error", got)
	}
	r.ends(cli.ExitRefused, "Machine team-a/m-1 has not reached version=v1.32.4: the disk is full. Fix: remove the cause, then run windlass upgrade machine m-1 -n team-a --retry")
}

// TestIsOlder checks which readings of an object count.
func TestIsOlder(t *testing.T) {
	for _, test := range []struct {
		seen, written string
		want          bool
	}{{"9", "10", true}, {"10", "10", false}, {"11", "10", false}, {"", "10", false}, {"x", "y", false}} {
		if got := isOlder(test.seen, test.written); got != test.want {
			t.Errorf("isOlder(%q, %q) is %t", test.seen, test.written, got)
		}
	}
}
