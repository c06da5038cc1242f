package refusal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestAllControllersBackOff holds that each controller of the product that is registered calls a
// Reconciler of BackOff. Those of Cluster API that the manager runs unchanged register themselves.
func TestAllControllersBackOff(t *testing.T) {
	t.Parallel()
	controllers := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		registered, backOff := countRegistered(file)
		controllers += registered
		if registered != backOff {
			t.Errorf("%s registers %d controllers, and %d of them with refusal.BackOff", path, registered, backOff)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if controllers < 10 {
		t.Errorf("found %d controllers: the test does not see how they are registered", controllers)
	}
}

// countRegistered counts the calls that begin to register a controller, and those of BackOff.
func countRegistered(file *ast.File) (registered, backOff int) {
	ast.Inspect(file, func(node ast.Node) bool {
		call, is := node.(*ast.CallExpr)
		if !is {
			return true
		}
		function := call.Fun
		if generic, is := function.(*ast.IndexExpr); is {
			function = generic.X
		}
		selector, is := function.(*ast.SelectorExpr)
		if !is {
			return true
		}
		of, _ := selector.X.(*ast.Ident)
		switch name := selector.Sel.Name; {
		case of == nil:
		case name == "NewControllerManagedBy", of.Name == "controller" && strings.HasPrefix(name, "New"):
			registered++
		case of.Name == "refusal" && name == "BackOff":
			backOff++
		}
		return true
	})
	return registered, backOff
}
