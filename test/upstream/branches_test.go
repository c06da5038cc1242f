package upstream

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAdaptersOnlyConvert: each branch of an adapter is listed with the reason why it decides
// nothing. The list is pinned by the number of branches in each function or variable.
func TestAdaptersOnlyConvert(t *testing.T) {
	t.Parallel()
	var listed []string
	err := eachLine(filepath.Join("testdata", "branches.txt"), func(line string) error {
		counted, reason, ok := strings.Cut(line, " | ")
		if !ok || reason == "" {
			return fmt.Errorf("want FILE NAME NUMBER | REASON")
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

// listBranches returns "FILE NAME NUMBER" for each function, variable or constant of an adapter
// that has branches.
func listBranches(name string) (found []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading an adapter: %w", err)
	}
	pkg, base := filepath.Base(filepath.Dir(name)), filepath.Base(name)
	for _, d := range file.Decls {
		for declared, node := range declarations(d) {
			if n := countBranches(node); n > 0 {
				found = append(found, fmt.Sprintf("%s/%s %s %d", pkg, base, declared, n))
			}
		}
	}
	return found, nil
}

// declarations iterates over a function, or over the variables and constants that are declared
// together. Variables can contain functions.
func declarations(d ast.Decl) iter.Seq2[string, ast.Node] {
	return func(yield func(string, ast.Node) bool) {
		switch d := d.(type) {
		case *ast.FuncDecl:
			yield(d.Name.Name, d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				values, ok := spec.(*ast.ValueSpec)
				if ok && !yield(values.Names[0].Name, values) {
					return
				}
			}
		}
	}
}

// countBranches counts the if, switch and select statements, the loops without range, and the
// operators && and ||. Statements that only pass an error on do not count.
func countBranches(in ast.Node) (n int) {
	ast.Inspect(in, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt:
			if !passesErrorOn(node) {
				n++
			}
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.ForStmt:
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

// passesErrorOn reports whether a statement is "if err != nil" without else, and its body passes
// err on.
func passesErrorOn(s *ast.IfStmt) bool {
	condition, ok := s.Cond.(*ast.BinaryExpr)
	return ok && condition.Op == token.NEQ && isNamed(condition.X, "err") &&
		isNamed(condition.Y, "nil") && s.Else == nil && endsWithError(s.Body.List)
}

// endsWithError reports whether statements are "panic(err)" alone, or only return err after zero
// values.
func endsWithError(body []ast.Stmt) bool {
	if len(body) != 1 {
		return false
	}
	switch s := body[0].(type) {
	case *ast.ReturnStmt:
		last := len(s.Results) - 1
		return last >= 0 && isNamed(s.Results[last], "err") &&
			!slices.ContainsFunc(s.Results[:last], func(e ast.Expr) bool { return !isZero(e) })
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && isNamed(call.Fun, "panic") && len(call.Args) == 1 && isNamed(call.Args[0], "err")
	}
	return false
}

// isZero reports whether an expression is nil, or a literal without elements.
func isZero(e ast.Expr) bool {
	literal, ok := e.(*ast.CompositeLit)
	return isNamed(e, "nil") || ok && len(literal.Elts) == 0
}

func isNamed(e ast.Expr, name string) bool {
	is, ok := e.(*ast.Ident)
	return ok && is.Name == name
}

// TestCountBranches: each text is an adapter of its own.
func TestCountBranches(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"func f() error { if err != nil { return err }; return nil }":                       "",
		"func f() (*T, T, error) { if err := g(); err != nil { return nil, T{}, err } }":    "",
		"func f() { if err != nil { panic(err) } }":                                         "",
		"func f() { for _, v := range list { use(v) } }":                                    "",
		"func f() { if err != nil { decide() } }":                                           "f 1",
		"func f() error { if err != nil { decide(); return err }; return nil }":             "f 1",
		"func f() (int, error) { if err != nil { return decide(), err }; return 0, nil }":   "f 1",
		"func f() (T, error) { if err != nil { return T{Replicas: 1}, err }; return g() }":  "f 1",
		"func f() error { if err != nil { return nil }; return g() }":                       "f 1",
		"func f() { if err != nil { return }; decide() }":                                   "f 1",
		"func f() error { if err != nil { return err } else { decide() } }":                 "f 1",
		"func f() error { if err != other { return err }; return nil }":                     "f 1",
		"func f() error { if err != nil { if p { decide() }; return err }; return nil }":    "f 2",
		"func f() { for p { decide(); break } }":                                            "f 1",
		"func f() { run(func() { if p { decide() } }) }":                                    "f 1",
		"var v = func() { switch p { case q: decide() } }":                                  "v 1",
		"var (\n u = f\n v = map[string]func() bool{`a`: func() bool { return p && q }}\n)": "v 1",
		"func (T) f() bool { return p || q && r }":                                          "f 2",
	} {
		name := filepath.Join(t.TempDir(), "adapter.go")
		if err := os.WriteFile(name, []byte("package a\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := listBranches(name)
		if err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(strings.Join(found, "; "), " ")
		if got != want {
			t.Errorf("%s\nhas the branches %q, want %q", text, got, want)
		}
	}
}
