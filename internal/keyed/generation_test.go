package keyed_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGenerationsAreNotCompared finds caches that take a generation for a content: an etcd that is
// restored from a snapshot repeats one. A cache compares keyed.VersionOf, or the content. The
// places that do compare generations are listed with the reason.
func TestGenerationsAreNotCompared(t *testing.T) {
	t.Parallel()
	want := map[string]int{
		// Two versions in one event of one cache.
		"app/manager_cluster_watches.go": 1, "controllers/annotations_watch.go": 1,
		// A record of the same object, which is restored with it.
		"chain/record.go": 1, "chain/state.go": 1, "gate/status.go": 1, "pool/counts.go": 1,
		"simulate/explore/effects.go": 1,
		// Each read costs a request, and a restored etcd ends the process.
		"controllers/updatepolicy_read.go": 1,
		// An order, of which the caller finds out by a write what it means.
		"controllers/updatepolicy_scope.go": 1,
		// A person looks at both, seconds apart.
		"cli/approvecmd/write.go": 1,
	}
	got := map[string]int{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		ast.Inspect(file, func(node ast.Node) bool {
			if compared, is := node.(*ast.BinaryExpr); is && comparesGenerations(compared) {
				got[name]++
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places that compare generations differ (-want +got):\n%s", diff)
	}
}

// comparesGenerations reports whether an expression compares two generations of which neither is
// the one that a controller has observed.
func comparesGenerations(e *ast.BinaryExpr) bool {
	compares := []token.Token{token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ}
	if !slices.Contains(compares, e.Op) {
		return false
	}
	x, y := nameOf(e.X), nameOf(e.Y)
	for _, name := range []string{x, y} {
		if !strings.HasSuffix(strings.ToLower(name), "generation") || strings.HasPrefix(strings.ToLower(name), "observed") {
			return false
		}
	}
	return true
}

// nameOf returns the last name of an expression such as a.b.Name or a.Name(c).
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		return nameOf(e.Fun)
	}
	return ""
}
