package pool_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/pool"
)

// TestReasonsAreDocumented: the page that says what to do about a group that waits, and the one for
// providers, have each reason that the condition UpdateBlocked shows.
func TestReasonsAreDocumented(t *testing.T) {
	t.Parallel()
	reasons := engineReasons(t)
	for _, reason := range declaredReasons(t) {
		if reason.Blocks() {
			reasons = append(reasons, string(reason))
		}
	}
	if len(reasons) < 24 {
		t.Errorf("found %d reasons that block a group; there are 24 or more", len(reasons))
	}
	for _, name := range []string{"docs/how-to/find-out-why.md", "docs/reference/for-providers.md"} {
		page, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, reason := range reasons {
			if !strings.Contains(string(page), "`"+reason+"`") {
				t.Errorf("%s has no row for %s", name, reason)
			}
		}
	}
}

// engineReason finds a reason of the condition UpdateBlocked that the engine of updates sets.
var engineReason = regexp.MustCompile(`(?m)^\t\w+Reason = "(\w+)"$`)

// engineReasons returns the reasons that the engine of updates sets, from their source.
func engineReasons(t *testing.T) []string {
	t.Helper()
	source, err := os.ReadFile("../../api/v1alpha1/conditions.go")
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, match := range engineReason.FindAllSubmatch(source, -1) {
		reasons = append(reasons, string(match[1]))
	}
	return reasons
}

// declaredReason finds a constant of type Reason.
var declaredReason = regexp.MustCompile(`(?m)^\tReason\w+ +Reason = "(\w+)"$`)

// declaredReasons returns the constants of type Reason of the package, from its source.
func declaredReasons(t *testing.T) []pool.Reason {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var reasons []pool.Reason
	for _, name := range sources {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range declaredReason.FindAllSubmatch(source, -1) {
			reasons = append(reasons, pool.Reason(match[1]))
		}
	}
	return reasons
}
