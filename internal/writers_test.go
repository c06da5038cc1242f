package internal_test

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
	"testing"
)

const (
	metaPackage      = "k8s.io/apimachinery/pkg/api/meta"
	capiConditions   = "sigs.k8s.io/cluster-api/util/conditions"
	legacyConditions = "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	clientPackage    = "sigs.k8s.io/controller-runtime/pkg/client"
	managerPackage   = "sigs.k8s.io/controller-runtime"
	conditionPackage = "github.com/windlass-dev/windlass/internal/condition"
)

// writers are the folders that are not looked at: the writers, and stand-ins that no API server sees.
var writers = []string{"condition/", "eventlimit/", "recordlimit/", "simulate/", "port/porttest/"}

// elsewhere are the files outside of the writers that may write, with why.
var elsewhere = map[string]string{
	"app/extension_inplace.go assigns Conditions":           "a cache keeps fewer of them",
	"app/manager_cluster_watches.go assigns Conditions":     "a copy, with which events are compared",
	"app/active.go calls client.New":                        "it labels its own Pod",
	"cli/management/cluster.go calls client.NewWithWatch":   "what a person asks for",
	"workload/clients.go calls client.New":                  "workload clusters, where Nodes have no records",
	"inplace/engine/annotated_record.go assigns conditions": "a copy in memory of what condition.Set made",
	"inplace/engine/fence.go has the key conditions":        "server-side apply of what condition.Bound made",
}

// TestWriters fails for a condition, an Event or a record that is written past the packages condition,
// eventlimit and recordlimit, which bound what is written, and for an exception that is no longer one.
func TestWriters(t *testing.T) {
	t.Parallel()
	unused := map[string]bool{}
	for key := range elsewhere {
		unused[key] = true
	}
	files := 0
	for _, root := range []string{".", "../cmd", "../pkg", "../api"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			if slices.ContainsFunc(writers, func(dir string) bool { return strings.HasPrefix(filepath.ToSlash(path), dir) }) {
				return nil
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files++
			for _, found := range findWrites(parsed) {
				key := filepath.ToSlash(path) + " " + found
				if elsewhere[key] == "" {
					t.Errorf("%s. Fix: use package condition, eventlimit or recordlimit", key)
				}
				delete(unused, key)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for key := range unused {
		t.Errorf("%s: the file no longer does. Fix: remove the exception", key)
	}
	if files < 100 {
		t.Errorf("only %d files were read", files)
	}
}

// TestFindWrites: each way to write is found, and reading is not.
func TestFindWrites(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		code string
		want []string
	}{
		"a list":            {`meta.SetStatusCondition(&list, c)`, []string{"calls meta.SetStatusCondition"}},
		"an object":         {`conditions.Set(m, c)`, []string{"calls conditions.Set"}},
		"an aggregate":      {`conditions.SetAggregateCondition(all, m, "a")`, []string{"calls conditions.SetAggregateCondition"}},
		"as a value":        {`set := conditions.Set`, []string{"calls conditions.Set"}},
		"legacy":            {`old.MarkFalse(m, "a", "b", "c", "d")`, []string{"calls v1beta1.MarkFalse"}},
		"legacy, bounded":   {`old.MarkFalse(condition.Legacy(m), "a", "b", "c", "d")`, nil},
		"a setter":          {`m.SetConditions(list)`, []string{"calls SetConditions"}},
		"a legacy setter":   {`m.SetV1Beta1Conditions(list)`, []string{"calls SetV1Beta1Conditions"}},
		"a field":           {`m.Status.Conditions = list`, []string{"assigns Conditions"}},
		"an item":           {`m.Status.Conditions[0] = c`, []string{"assigns Conditions"}},
		"a pointer":         {`*conditions = list`, []string{"assigns conditions"}},
		"a patch":           {`_ = map[string]any{"conditions": list}`, []string{"has the key conditions"}},
		"a recorder":        {`mgr.GetEventRecorder("a")`, []string{"calls GetEventRecorder"}},
		"a core recorder":   {`mgr.GetEventRecorderFor("a")`, []string{"calls GetEventRecorderFor"}},
		"a broadcaster":     {`b.NewRecorder(scheme, "a")`, []string{"calls NewRecorder"}},
		"an Event":          {`_ = &corev1.Event{}`, []string{"makes an Event"}},
		"through a package": {`condition.Set(&m.Status.Conditions, c)`, nil},
		"a client":          {`client.New(config, options)`, []string{"calls client.New"}},
		"a manager":         {`ctrl.NewManager(config, ctrl.Options{})`, []string{"calls controller-runtime.NewManager"}},
		"a bounded manager": {`_ = ctrl.Options{NewClient: recordlimit.NewClient}; ctrl.NewManager(config, options)`, nil},
		"reading":           {`_ = meta.FindStatusCondition(m.Status.Conditions, "a"); conditions.Get(m, "a"); conditions.Delete(m, "a")`, nil},
	} {
		source := `package p
import (
	"` + metaPackage + `"
	"` + capiConditions + `"
	old "` + legacyConditions + `"
	"` + conditionPackage + `"
	corev1 "k8s.io/api/core/v1"
	"` + clientPackage + `"
	ctrl "` + managerPackage + `"
)
func f() { ` + test.code + ` }`
		parsed, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := findWrites(parsed); !slices.Equal(got, test.want) {
			t.Errorf("%s: found %q, want %q", name, got, test.want)
		}
	}
}

// findWrites describes what a file writes of conditions and Events, and which clients it makes. A
// manager with the option NewClient counts as bounded.
func findWrites(file *ast.File) []string {
	f := writes{imported: importsOf(file), bounded: map[ast.Node]bool{}}
	ast.Inspect(file, f.visit)
	if f.hasClient {
		return slices.DeleteFunc(f.found, func(what string) bool { return strings.HasSuffix(what, ".NewManager") })
	}
	return f.found
}

// writes is what was found of a file.
type writes struct {
	imported map[string]string
	// bounded are the functions that are called with condition.Legacy.
	bounded   map[ast.Node]bool
	hasClient bool
	found     []string
}

func (f *writes) visit(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.CallExpr:
		f.bounded[n.Fun] = len(n.Args) > 0 && isLegacy(f.imported, n.Args[0])
	case *ast.SelectorExpr:
		if setter := setterOf(f.imported, n); setter != "" && !f.bounded[n] {
			f.found = append(f.found, "calls "+setter)
		}
	case *ast.AssignStmt:
		for _, left := range n.Lhs {
			if name := conditionsIn(left); name != "" {
				f.found = append(f.found, "assigns "+name)
			}
		}
	case *ast.KeyValueExpr:
		f.visitKey(n.Key)
	case *ast.CompositeLit:
		if made, ok := n.Type.(*ast.SelectorExpr); ok && made.Sel.Name == "Event" && strings.HasPrefix(packageOf(f.imported, made), "k8s.io/api/") {
			f.found = append(f.found, "makes an Event")
		}
	}
	return true
}

func (f *writes) visitKey(key ast.Expr) {
	switch key := key.(type) {
	case *ast.Ident:
		f.hasClient = f.hasClient || key.Name == "NewClient"
	case *ast.BasicLit:
		if key.Value == `"conditions"` {
			f.found = append(f.found, "has the key conditions")
		}
	}
}

// setterOf names the function or method that sets conditions or makes a recorder or client; empty for
// others.
func setterOf(imported map[string]string, s *ast.SelectorExpr) string {
	path, name := packageOf(imported, s), s.Sel.Name
	switch path {
	case metaPackage:
		if name != "SetStatusCondition" {
			return ""
		}
	case capiConditions, legacyConditions:
		if !strings.HasPrefix(name, "Set") && !strings.HasPrefix(name, "Mark") || name == "Setter" {
			return ""
		}
	case clientPackage:
		if name != "New" && name != "NewWithWatch" {
			return ""
		}
	case managerPackage:
		if name != "NewManager" {
			return ""
		}
	case "":
		methods := []string{
			"SetConditions", "SetV1Beta1Conditions", "GetEventRecorder", "GetEventRecorderFor", "NewRecorder",
		}
		if !slices.Contains(methods, name) {
			return ""
		}
		return name
	default:
		return ""
	}
	return fmt.Sprintf("%s.%s", filepath.Base(path), name)
}

// isLegacy reports whether an argument is a call of condition.Legacy.
func isLegacy(imported map[string]string, argument ast.Expr) bool {
	call, ok := argument.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	return ok && packageOf(imported, s) == conditionPackage && s.Sel.Name == "Legacy"
}

// conditionsIn is the name of the conditions that an assignment changes; empty for none.
func conditionsIn(left ast.Expr) string {
	switch l := left.(type) {
	case *ast.IndexExpr:
		return conditionsIn(l.X)
	case *ast.SelectorExpr:
		if l.Sel.Name == "Conditions" && isStatus(l.X) {
			return l.Sel.Name
		}
	case *ast.StarExpr:
		if name, ok := l.X.(*ast.Ident); ok && strings.EqualFold(name.Name, "conditions") {
			return name.Name
		}
	}
	return ""
}

// isStatus reports whether an expression is a status by its name.
func isStatus(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "status"
	case *ast.SelectorExpr:
		return x.Sel.Name == "Status"
	}
	return false
}

// packageOf is the path of the package of a selector such as meta.SetStatusCondition; empty for a
// method or field.
func packageOf(imported map[string]string, s *ast.SelectorExpr) string {
	if x, ok := s.X.(*ast.Ident); ok {
		return imported[x.Name]
	}
	return ""
}

// importsOf returns the paths that a file imports, by the name that it uses.
func importsOf(file *ast.File) map[string]string {
	imported := map[string]string{}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := filepath.Base(path)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = path
	}
	return imported
}
