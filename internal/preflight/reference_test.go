package preflight_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/preflight"
)

// TestReference holds that the reference lists every check, in order.
func TestReference(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/preflight-checks.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed, want []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z][A-Za-z]+) \|`).FindAllSubmatch(page, -1) {
		if name := string(row[1]); name != "Check" {
			listed = append(listed, name)
		}
	}
	for _, id := range preflight.IDs() {
		want = append(want, string(id))
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("checks in the reference (-want +got):\n%s", diff)
	}
}
