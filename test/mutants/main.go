package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const listFile = "test/mutants/survivors.txt"

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: mutants REPORTS PACKAGE...")
		os.Exit(2)
	}
	if err := run(".", os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run compares the reports on packages with the list. Files are relative to root, the module's.
func run(root, reports string, packages []string) error {
	text, err := os.ReadFile(filepath.Join(root, listFile))
	if err != nil {
		return fmt.Errorf("reading the list of survivors: %w", err)
	}
	listed, err := parseList(string(text))
	if err != nil {
		return err
	}
	var found []survivor
	for _, pkg := range packages {
		in, err := readReport(root, reports, pkg)
		if err != nil {
			return err
		}
		found = append(found, in...)
	}
	return compare(listed, found, packages)
}

// survivor is a mutant that no test killed.
type survivor struct {
	// key names the mutant as the list does: file, function and condition.
	key string
	// status is go-gremlins' word for what happened.
	status string
	line   int
}

// parseList returns the keys of the listed survivors. Each has a reason.
func parseList(text string) ([]string, error) {
	var keys []string
	explained := true
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case strings.TrimLeft(line, " \t") != line:
			explained = true
		case !explained:
			return nil, fmt.Errorf("%s:%d: %s has no reason: indent it below the entry",
				listFile, i, keys[len(keys)-1])
		case slices.Contains(keys, line):
			return nil, fmt.Errorf("%s:%d: %s is listed twice: delete one", listFile, i+1, line)
		default:
			keys, explained = append(keys, line), false
		}
	}
	if !explained {
		return nil, fmt.Errorf("%s: %s has no reason: indent it below the entry",
			listFile, keys[len(keys)-1])
	}
	return keys, nil
}

// report is the part of go-gremlins' report that is read here.
type report struct {
	Files []struct {
		Name      string `json:"file_name"`
		Mutations []struct {
			Status string `json:"status"`
			Line   int    `json:"line"`
			Column int    `json:"column"`
		} `json:"mutations"`
	} `json:"files"`
}

// readReport returns the survivors in one package. File names in its report are relative to pkg.
func readReport(root, reports, pkg string) ([]survivor, error) {
	text, err := os.ReadFile(filepath.Join(reports, pkg+".json"))
	if err != nil {
		return nil, fmt.Errorf("reading the report on %s: %w", pkg, err)
	}
	var content report
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("parsing the report on %s: %w", pkg, err)
	}
	var found []survivor
	for _, file := range content.Files {
		name := path.Join(pkg, file.Name)
		set := token.NewFileSet()
		source, err := parser.ParseFile(set, filepath.Join(root, name), nil, 0)
		if err != nil {
			return nil, fmt.Errorf("parsing what was mutated: %w", err)
		}
		for _, mutant := range file.Mutations {
			if mutant.Status == "KILLED" {
				continue
			}
			where, ok := describe(set, source, mutant.Line, mutant.Column)
			if !ok {
				return nil, fmt.Errorf("%s:%d:%d is no comparison: the file changed after the report",
					name, mutant.Line, mutant.Column)
			}
			found = append(found, survivor{key: name + ": " + where, status: mutant.Status, line: mutant.Line})
		}
	}
	return found, nil
}

// describe returns the function and the text of the comparison whose operator is at line and column.
func describe(set *token.FileSet, file *ast.File, line, column int) (string, bool) {
	function, condition := "", ""
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.BinaryExpr:
			at := set.Position(n.OpPos)
			if at.Line == line && at.Column == column {
				condition = types.ExprString(n)
			}
		case *ast.FuncDecl:
			if set.Position(n.Pos()).Line <= line && line <= set.Position(n.End()).Line {
				function = n.Name.Name
				if n.Recv != nil {
					function = strings.TrimPrefix(types.ExprString(n.Recv.List[0].Type), "*") + "." + function
				}
			}
		}
		return true
	})
	return function + ": " + condition, condition != ""
}

// compare returns an error per survivor that is not listed, and per listed key in packages that is
// no survivor.
func compare(listed []string, found []survivor, packages []string) error {
	var problems []error
	for _, s := range found {
		if !slices.Contains(listed, s.key) {
			problems = append(problems, fmt.Errorf("line %d, %s: %s", s.line, s.status, s.key))
		}
	}
	if len(problems) > 0 {
		problems = append(problems, fmt.Errorf("no test fails with these conditions negated. Fix: "+
			"add a test that does, or list them with the reason in %s", listFile))
	}
	for _, key := range listed {
		file, _, _ := strings.Cut(key, ": ")
		survived := slices.ContainsFunc(found, func(s survivor) bool { return s.key == key })
		if slices.Contains(packages, path.Dir(file)) && !survived {
			problems = append(problems, fmt.Errorf("no mutant survived at %s. Fix: delete it from %s", key, listFile))
		}
	}
	return errors.Join(problems...)
}
