package peer_test

import (
	"encoding/pem"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func certificateOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// constructors are the ways to make an HTTP client or transport, by import path. They match a call,
// a literal, new(T), and a variable of that type. A pointer to it in a field or parameter makes
// nothing.
var constructors = map[string][]string{
	"net/http": {
		"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm",
	},
	"k8s.io/client-go/rest": {
		"HTTPClientFor", "TransportFor", "RESTClientFor", "UnversionedRESTClientFor",
	},
	"k8s.io/client-go/kubernetes":               {"NewForConfig", "NewForConfigOrDie"},
	"k8s.io/client-go/dynamic":                  {"NewForConfig", "NewForConfigOrDie"},
	"k8s.io/client-go/metadata":                 {"NewForConfig", "NewForConfigOrDie"},
	"k8s.io/client-go/discovery":                {"NewDiscoveryClientForConfig", "NewDiscoveryClientForConfigOrDie"},
	"sigs.k8s.io/controller-runtime/pkg/client": {"New", "NewWithWatch"},
}

// exceptions are the files that may use a constructor, with the reason. All of them talk to the
// management cluster, whose operator gave them their kubeconfig, or pass a client of this package.
var exceptions = map[string]string{
	"internal/cli/management/cluster.go": "the management cluster",
	"internal/peer/peer.go":              "the constructor",
	"internal/workload/clients.go":       "passes a client of this package",
	"internal/app/extension.go":          "the management cluster",
	"internal/app/active.go":             "the management cluster",
	"internal/conformance/connection.go": "checks that an updater refuses plain HTTP, which a client of this package does not speak",
}

// labs are folders with development tools, which start the servers that they talk to.
var labs = []string{"lab", "test", "tools", "examples"}

func TestOnlyConstructor(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	used := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			// bin is what make builds: upstream's tests are there, too.
			if name == "bin" || slices.Contains(labs, filepath.ToSlash(name)) || name != "." && strings.HasPrefix(entry.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		found, err := findConstructors(path, nil)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if len(found) > 0 && exceptions[name] == "" {
			t.Errorf("%s makes an HTTP client: %s. Fix: make it with internal/peer", name, strings.Join(found, ", "))
		}
		used[name] = used[name] || len(found) > 0
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range exceptions {
		if !used[name] {
			t.Errorf("%s is an exception and makes no client. Fix: remove it from the list", name)
		}
	}
}

// The search above finds each form.
func TestFindConstructors(t *testing.T) {
	t.Parallel()
	source := `package p
import (
	h "net/http"
	"k8s.io/client-go/rest"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
)
type t struct { held *h.Client }
func take(c *h.Client) *h.Transport { return nil }
var a = h.Client{}
var b = &h.Transport{}
var c h.Client
var d = new(h.Transport)
var e, _ = h.Get("x")
var f = h.DefaultClient
var g, _ = rest.HTTPClientFor(nil)
var i, _ = crclient.New(nil, crclient.Options{})
var j = rest.HTTPClientFor
type embeds struct { h.Client }
`
	found, err := findConstructors("p.go", source)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"http.Client", "http.Transport", "http.Client", "http.Transport", "http.Get", "http.DefaultClient", "rest.HTTPClientFor",
		"client.New", "rest.HTTPClientFor", "http.Client",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
}

// findConstructors lists the constructors that a file uses, in the order of its lines.
func findConstructors(path string, source any) ([]string, error) {
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
	inspect := func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.StarExpr:
			// A pointer type makes nothing; what it points to is looked at where it is made.
			if _, ok := node.X.(*ast.SelectorExpr); ok {
				return false
			}
		case *ast.SelectorExpr:
			name, ok := node.X.(*ast.Ident)
			if ok && slices.Contains(constructors[imports[name.Name]], node.Sel.Name) {
				target := imports[name.Name]
				found = append(found, target[strings.LastIndex(target, "/")+1:]+"."+node.Sel.Name)
			}
		}
		return true
	}
	ast.Inspect(file, inspect)
	return found, nil
}
