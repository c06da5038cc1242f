package upstream

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// copied is the import path below which a copy of Cluster API has our packages. Upstream's
// packages may import it, and it may import upstream's internal packages.
const copied = upstreamModule + "/internal/windlass"

// moveImport returns the path in a copy of Cluster API of a package of ours.
func moveImport(importPath string) string {
	below := strings.TrimPrefix(importPath, ownModule+"/")
	return path.Join(copied, strings.TrimPrefix(below, "internal/"))
}

// moveImports rewrites the imports of our packages in a Go file, and returns the paths that they
// had.
func moveImports(name string, source []byte) (out []byte, imports []string, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ImportsOnly)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the imports of %s: %w", name, err)
	}
	at := 0
	for _, spec := range file.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the imports of %s: %w", name, err)
		}
		if !strings.HasPrefix(importPath, ownModule+"/") {
			continue
		}
		imports = append(imports, importPath)
		begin := files.Position(spec.Path.Pos()).Offset
		out = append(out, source[at:begin]...)
		out = strconv.AppendQuote(out, moveImport(importPath))
		at = begin + len(spec.Path.Value)
	}
	return append(out, source[at:]...), imports, nil
}

// adapterPrefix begins the names of adapters in a copy.
const adapterPrefix = "windlass_"

// addAdapters adds the adapters below testdata/adapters, and the packages of ours that they import,
// directly or not.
func (t *tree) addAdapters() error {
	var wanted []string
	for _, pkg := range packages {
		names, err := filepath.Glob(filepath.Join("testdata", "adapters", pkg, "*.go"))
		if err != nil {
			return fmt.Errorf("listing adapters: %w", err)
		}
		for _, name := range names {
			imports, err := t.addSource(name, inReconcilers(pkg, adapterPrefix+filepath.Base(name)))
			if err != nil {
				return err
			}
			wanted = append(wanted, imports...)
		}
	}
	for done := map[string]bool{}; len(wanted) > 0; {
		importPath := wanted[0]
		wanted = wanted[1:]
		if done[importPath] {
			continue
		}
		done[importPath] = true
		imports, err := t.addPackage(importPath)
		if err != nil {
			return err
		}
		wanted = append(wanted, imports...)
	}
	return nil
}

// addPackage adds a package of ours without its tests and returns its imports of others.
func (t *tree) addPackage(importPath string) (imports []string, err error) {
	dir := filepath.Join(root, filepath.FromSlash(strings.TrimPrefix(importPath, ownModule+"/")))
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	into := strings.TrimPrefix(moveImport(importPath), upstreamModule+"/")
	for _, name := range names {
		if !isGo(name) {
			continue
		}
		more, err := t.addSource(name, path.Join(into, filepath.Base(name)))
		if err != nil {
			return nil, err
		}
		imports = append(imports, more...)
	}
	return imports, nil
}

func (t *tree) addSource(from, to string) (imports []string, err error) {
	source, err := os.ReadFile(from)
	if err != nil {
		return nil, fmt.Errorf("reading what is to be added: %w", err)
	}
	source, imports, err = moveImports(from, source)
	if err != nil {
		return nil, err
	}
	return imports, t.add(to, source)
}

// declaration is a function at the top level of a file.
type declaration struct {
	name       string
	isTest     bool
	begin, end int
}

// testName matches the name of a test, as the go command does.
var testName = regexp.MustCompile(`^Test($|[^a-z])`)

func readDeclarations(name string, source []byte) ([]declaration, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("reading the functions of %s: %w", name, err)
	}
	var found []declaration
	for _, d := range file.Decls {
		function, ok := d.(*ast.FuncDecl)
		if !ok || function.Recv != nil {
			continue
		}
		begin := function.Pos()
		if function.Doc != nil {
			begin = function.Doc.Pos()
		}
		name := function.Name.Name
		found = append(found, declaration{
			name: name, isTest: testName.MatchString(name) && name != "TestMain",
			begin: files.Position(begin).Offset, end: files.Position(function.End()).Offset,
		})
	}
	return found, nil
}

// testFile is a file with tests of a package, and its functions.
type testFile struct {
	name         string
	source       []byte
	declarations []declaration
}

// testFiles returns the files with tests of a package, sorted by name.
func (t *tree) testFiles(pkg string) ([]testFile, error) {
	var found []testFile
	for _, name := range t.list(inReconcilers(pkg)) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := t.read(name)
		if err != nil {
			return nil, err
		}
		declarations, err := readDeclarations(name, source)
		if err != nil {
			return nil, err
		}
		found = append(found, testFile{name, source, declarations})
	}
	return found, nil
}

// listTests returns the names of the tests of a package, sorted, as `go test -list` does.
func (t *tree) listTests(pkg string) ([]string, error) {
	files, err := t.testFiles(pkg)
	if err != nil {
		return nil, err
	}
	var tests []string
	for _, file := range files {
		for _, d := range file.declarations {
			if d.isTest {
				tests = append(tests, d.name)
			}
		}
	}
	slices.Sort(tests)
	return tests, nil
}

// cut removes functions from the tests of a package, and imports that nothing else uses. It
// returns the names that it did not find.
func (t *tree) cut(pkg string, functions []string) (missing []string, err error) {
	files, err := t.testFiles(pkg)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, file := range files {
		var out []byte
		at := 0
		for _, d := range file.declarations {
			if slices.Contains(functions, d.name) {
				found[d.name] = true
				out = append(out, file.source[at:d.begin]...)
				at = d.end
			}
		}
		if at == 0 {
			continue
		}
		out, err := blankImports(file.name, append(out, file.source[at:]...))
		if err != nil {
			return nil, err
		}
		t.replace(file.name, out)
	}
	for _, name := range functions {
		if !found[name] {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// majorVersion matches the last element of an import path that is no name of a package.
var majorVersion = regexp.MustCompile(`/v[0-9]+$`)

// blankImports gives imports that no code uses the name _.
func blankImports(name string, source []byte) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, 0)
	if err != nil {
		return nil, fmt.Errorf("reading %s without some functions: %w", name, err)
	}
	used := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if ident, ok := selector.X.(*ast.Ident); ok {
				used[ident.Name] = true
			}
		}
		return true
	})
	var out bytes.Buffer
	at := 0
	for _, spec := range file.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("reading the imports of %s: %w", name, err)
		}
		as := path.Base(majorVersion.ReplaceAllString(importPath, ""))
		if spec.Name != nil {
			as = spec.Name.Name
		}
		if used[as] || as == "." || as == "_" {
			continue
		}
		begin := files.Position(spec.Pos()).Offset
		out.Write(source[at:begin])
		out.WriteString("_ " + spec.Path.Value)
		at = files.Position(spec.End()).Offset
	}
	out.Write(source[at:])
	return out.Bytes(), nil
}
