package upstream

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAdaptersOnlyConvert: each branch of an adapter is listed with the reason why it decides
// nothing. The list is pinned by the number of branches in each function.
func TestAdaptersOnlyConvert(t *testing.T) {
	t.Parallel()
	var listed []string
	err := eachLine(filepath.Join("testdata", "branches.txt"), func(line string) error {
		counted, reason, ok := strings.Cut(line, " | ")
		if !ok || reason == "" {
			return fmt.Errorf("want FILE FUNCTION NUMBER | REASON")
		}
		listed = append(listed, counted)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join("testdata", "adapters", "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		branches, err := listBranches(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, counted := range branches {
			if !slices.Contains(listed, counted) {
				t.Errorf("testdata/branches.txt lacks %q. Fix: remove the branches, or list them", counted)
			}
			listed = slices.DeleteFunc(listed, func(line string) bool { return line == counted })
		}
	}
	for _, line := range listed {
		t.Errorf("testdata/branches.txt has %q, but the adapters do not", line)
	}
}

// listBranches returns "FILE FUNCTION NUMBER" for each function of an adapter that has branches.
func listBranches(name string) (found []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading an adapter: %w", err)
	}
	pkg, base := filepath.Base(filepath.Dir(name)), filepath.Base(name)
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := countBranches(f); n > 0 {
			found = append(found, fmt.Sprintf("%s/%s %s %d", pkg, base, f.Name.Name, n))
		}
	}
	return found, nil
}

// countBranches counts the if and switch statements, and the operators && and ||. Those that only
// return an error do not count.
func countBranches(f *ast.FuncDecl) (n int) {
	ast.Inspect(f, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt:
			if !returnsError(node) {
				n++
			}
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			n++
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// returnsError reports whether a statement is "if err != nil" without else.
func returnsError(s *ast.IfStmt) bool {
	condition, ok := s.Cond.(*ast.BinaryExpr)
	if !ok || condition.Op != token.NEQ || s.Else != nil {
		return false
	}
	x, isName := condition.X.(*ast.Ident)
	return isName && x.Name == "err"
}
