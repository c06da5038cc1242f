package chain

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rules make one of two groups stop at every minor. The other one stops as seldom as it may.
const rules = `
  workers:
  - groups: [blue]
    stops: EveryMinor
    reason: the audit wants every minor to run
`

// TestRules upgrades a Cluster by four minors with this project's engine, which follows the rules of the upgrade graph for each
// group by itself, and finishes only if the operations are the planned ones.
func TestRules(t *testing.T) {
	if os.Getenv("WINDLASS_E2E") != "1" || os.Getenv("WINDLASS_LONG") != "1" {
		t.Skip("set WINDLASS_E2E=1 and WINDLASS_LONG=1 to upgrade by the rules of an upgrade graph")
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	folder := t.TempDir()
	copyWith(t, folder, "clusterclass.yaml", func(text string) string { return text + rules[1:] })
	copyWith(t, folder, "cluster.yaml", func(text string) string {
		return strings.Replace(text, "      - {class: worker, name: blue, replicas: 2}\n",
			"      - {class: worker, name: blue, replicas: 1}\n      - {class: worker, name: green, replicas: 1}\n", 1)
	})
	u := upgrade(ctx, t, cluster, "-f", folder, "--engine", "windlass")
	said := strings.Join(strings.Fields(u.output), " ")
	for _, want := range []string{
		"(the audit wants every minor to run)",
		"blue goes from v1.29.14 to v1.30.14", "blue goes from v1.30.14 to v1.31.14", "blue goes from v1.31.14 to v1.32.3",
		"green goes from v1.29.14 to v1.32.3",
		"The observed operations are the planned ones.",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the demo does not say %q:\n%s", want, u.output)
		}
	}
}

func copyWith(t *testing.T, folder, name string, change func(string) string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	changed := change(string(text))
	if changed == string(text) {
		t.Fatalf("%s is not changed", name)
	}
	if err := os.WriteFile(filepath.Join(folder, name), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}
