// Package symbols finds which files of the product use certain functions and types of other packages,
// for tests that allow only one package to use them.
package symbols

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// labs are folders with development tools.
var labs = []string{"lab", "test", "tools", "examples"}

// InProduct returns, by the path of each file below root that is part of the product, which of the
// symbols it uses. Symbols are names by import path. Files that use none have no entry.
func InProduct(root string, symbols map[string][]string) (map[string][]string, error) {
	used := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return fmt.Errorf("naming a file: %w", err)
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			// bin is what make builds: upstream's tests are there, too.
			if name == "bin" || slices.Contains(labs, name) || name != "." && strings.HasPrefix(entry.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		found, err := In(path, nil, symbols)
		if err == nil && len(found) > 0 {
			used[name] = found
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("searching %s: %w", root, err)
	}
	return used, nil
}

// In lists the symbols that a file uses, in the order of its lines. A pointer to a type uses nothing.
// source is as for parser.ParseFile.
func In(path string, source any, symbols map[string][]string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", path, err)
	}
	imports := map[string]string{}
	for _, spec := range file.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("parsing an import of %s: %w", path, err)
		}
		name := target[strings.LastIndex(target, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = target
	}
	var found []string
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.StarExpr:
			// A pointer type makes nothing; what it points to is looked at where it is made.
			if _, ok := node.X.(*ast.SelectorExpr); ok {
				return false
			}
		case *ast.SelectorExpr:
			name, ok := node.X.(*ast.Ident)
			if ok && slices.Contains(symbols[imports[name.Name]], node.Sel.Name) {
				target := imports[name.Name]
				found = append(found, target[strings.LastIndex(target, "/")+1:]+"."+node.Sel.Name)
			}
		}
		return true
	})
	return found, nil
}

// Unexpected compares what InProduct has found with the files that are expected to use symbols, and
// returns a text for each that is in only one of them, sorted.
func Unexpected(used map[string][]string, expected map[string]string) []string {
	var problems []string
	for name, found := range used {
		if expected[name] == "" {
			problems = append(problems, fmt.Sprintf("%s uses %s", name, strings.Join(found, ", ")))
		}
	}
	for name := range expected {
		if len(used[name]) == 0 {
			problems = append(problems, name+" is an exception and needs none. Fix: remove it from the list")
		}
	}
	slices.Sort(problems)
	return problems
}
