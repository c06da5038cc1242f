package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// window is how many lines of one shape count as a duplicate.
const window = 6

// size is what the syntax of the product's files tells.
type size struct {
	tokens   int
	packages map[string]bool
	exported int
	types    map[string]int
	// lines are the shapes of lines, by file; shapes are how often a window of them occurs.
	lines  map[string][]string
	shapes map[string]int
}

// productDirs contain the product; what is generated or only tests use does not count.
var productDirs = []string{"api", "cmd", "internal", "pkg"}

func measureSize(root string) (*size, error) {
	s := &size{packages: map[string]bool{}, types: map[string]int{}, lines: map[string][]string{}, shapes: map[string]int{}}
	for _, dir := range productDirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error { //nolint:gosec // The caller names the checkout.
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(entry.Name(), "zz_generated") {
				return err
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			return s.add(path, rel)
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *size) add(path, rel string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, 0)
	if err != nil {
		return err
	}
	if strings.HasPrefix(rel, "internal"+string(filepath.Separator)) {
		s.packages[filepath.Dir(rel)] = true
	}
	s.addNames(file)
	s.addTokens(rel, source)
	return nil
}

// addNames counts the exported names of packages, and of methods and fields of exported types.
func (s *size) addNames(file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			s.count(d.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					s.count(spec.Name)
					switch spec.Name.Name {
					case "Group", "Step", "Plan":
						s.types[spec.Name.Name]++
					}
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						s.count(name)
					}
				}
			}
		}
	}
}

func (s *size) count(name *ast.Ident) {
	if name.IsExported() {
		s.exported++
	}
}

// addTokens counts tokens without comments, and keeps the shape of each line: names, strings and numbers
// are alike in it. Lines of one token, such as braces, and imports have no shape.
func (s *size) addTokens(rel string, source []byte) {
	files := token.NewFileSet()
	file := files.AddFile(rel, -1, len(source))
	var scan scanner.Scanner
	scan.Init(file, source, nil, 0)
	shape, line, n := "", 0, 0
	flush := func() {
		if n > 1 {
			s.lines[rel] = append(s.lines[rel], shape)
		}
		shape, n = "", 0
	}
	for {
		pos, tok, _ := scan.Scan()
		if tok == token.EOF {
			break
		}
		if at := file.Line(pos); at != line {
			flush()
			line = at
		}
		if tok == token.SEMICOLON {
			continue
		}
		s.tokens++
		shape += tok.String() + " "
		n++
	}
	flush()
	for _, w := range windows(s.lines[rel]) {
		s.shapes[w]++
	}
}

func windows(lines []string) []string {
	var all []string
	for i := 0; i+window <= len(lines); i++ {
		all = append(all, strings.Join(lines[i:i+window], "\n"))
	}
	return all
}

// duplicated counts the places where window lines have a shape that occurs elsewhere, too. Lines that
// overlap count once.
func (s *size) duplicated() int {
	n := 0
	for _, lines := range s.lines {
		next := 0
		for i, w := range windows(lines) {
			if i >= next && s.shapes[w] > 1 {
				n++
				next = i + window
			}
		}
	}
	return n
}

func (s *size) rows() []row {
	return []row{
		{name: "tokens of Go without tests and comments", values: []string{strconv.Itoa(s.tokens)}},
		{name: "packages below internal", values: []string{strconv.Itoa(len(s.packages))}},
		{name: "exported names", values: []string{strconv.Itoa(s.exported)}},
		{name: "types named Group, Step, Plan", values: []string{fmt.Sprintf("%d, %d, %d", s.types["Group"], s.types["Step"], s.types["Plan"])}},
		{name: fmt.Sprintf("blocks of %d lines whose shape occurs elsewhere", window), values: []string{strconv.Itoa(s.duplicated())}},
	}
}
