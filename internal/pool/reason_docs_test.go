package pool_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
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

// declaredReasons returns the constants of type Reason of the package, from its source.
func declaredReasons(t *testing.T) []pool.Reason {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var reasons []pool.Reason
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Reason" {
				return true
			}
			for _, v := range spec.Values {
				if text, ok := v.(*ast.BasicLit); ok {
					name, err := strconv.Unquote(text.Value)
					if err != nil {
						t.Fatal(err)
					}
					reasons = append(reasons, pool.Reason(name))
				}
			}
			return true
		})
	}
	return reasons
}
