package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

// TestRequirements holds that every requirement names declarations that exist, and has a test with a
// mutant, or a deviation that says why not.
func TestRequirements(t *testing.T) {
	t.Parallel()
	documents, err := read("requirements")
	if err != nil {
		t.Fatal(err)
	}
	declared := declarations{}
	seen := map[string]bool{}
	for _, d := range documents {
		for _, r := range d.Requirements {
			if !strings.HasPrefix(r.ID, d.Number+"-") || seen[r.ID] || r.Text == "" {
				t.Errorf("requirement %q: want an id of its own that begins with %s-, and a text", r.ID, d.Number)
			}
			seen[r.ID] = true
			if (r.Mutant == nil || r.Test == place{}) && r.Deviation == "" {
				t.Errorf("requirement %s has no test with a mutant, and no deviation", r.ID)
			}
			for _, at := range []place{r.Code, r.Test, r.Live} {
				if (at != place{}) && !declared.has(t, at) {
					t.Errorf("requirement %s: there is no %s", r.ID, at)
				}
			}
			if r.Mutant == nil {
				continue
			}
			content, err := os.ReadFile(filepath.Join(root, r.Mutant.File))
			if err != nil {
				t.Errorf("requirement %s: %v", r.ID, err)
				continue
			}
			if _, err := r.Mutant.change(string(content)); err != nil {
				t.Errorf("requirement %s: %v", r.ID, err)
			}
		}
	}
}

// TestPage holds that the page shows the list. `go generate ./test/conformance` writes it.
func TestPage(t *testing.T) {
	t.Parallel()
	documents, err := read("requirements")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(renderPage(documents), string(got)); diff != "" {
		t.Errorf("docs/conformance.md is old; run go generate ./test/conformance (-want +got):\n%s", diff)
	}
}

func TestPattern(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"pkg/plan.TestCompute":            "^TestCompute$",
		"a/b.TestX/one (two), three/four": `^TestX$/^one_\(two\),_three$/^four$`,
	} {
		var p place
		if err := p.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := p.pattern(); got != want || p.String() != text {
			t.Errorf("%s has the pattern %s and is written %s, want %s", text, got, p, want)
		}
	}
}

// declarations are the names that are declared in each folder.
type declarations map[string]map[string]bool

func (d declarations) has(t *testing.T, p place) bool {
	t.Helper()
	if d[p.folder] == nil {
		d[p.folder] = map[string]bool{}
		files, err := filepath.Glob(filepath.Join(root, p.folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, declaration := range parsed.Decls {
				addNames(d[p.folder], declaration)
			}
		}
	}
	return d[p.folder][p.name]
}

func addNames(names map[string]bool, declaration ast.Decl) {
	switch declaration := declaration.(type) {
	case *ast.FuncDecl:
		name := declaration.Name.Name
		if declaration.Recv != nil {
			receiver := declaration.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			if generic, ok := receiver.(*ast.IndexExpr); ok {
				receiver = generic.X
			}
			if named, ok := receiver.(*ast.Ident); ok {
				name = named.Name + "." + name
			}
		}
		names[name] = true
	case *ast.GenDecl:
		for _, spec := range declaration.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names[spec.Name.Name] = true
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names[name.Name] = true
				}
			}
		}
	}
}
