package pool_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/pool"
)

// TestReasonsAreDocumented: the page that says what to do about a group that waits has each reason
// that waits for a person.
func TestReasonsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/how-to/find-out-why.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, reason := range declaredReasons(t) {
		if !reason.NeedsPerson() {
			continue
		}
		found++
		if !strings.Contains(string(page), "`"+string(reason)+"`") {
			t.Errorf("docs/how-to/find-out-why.md has no row for %s", reason)
		}
	}
	if found < 15 {
		t.Errorf("found %d reasons that need a person; the package has 15 or more", found)
	}
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
