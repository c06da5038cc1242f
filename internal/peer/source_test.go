package peer_test

import (
	"encoding/pem"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/test/symbols"
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
	"internal/recordlimit/client.go":     "the management cluster",
	"internal/app/active.go":             "the management cluster",
	"internal/conformance/connection.go": "checks that an updater refuses plain HTTP, which a client of this package does not speak",
}

func TestOnlyConstructor(t *testing.T) {
	t.Parallel()
	used, err := symbols.InProduct(filepath.Join("..", ".."), constructors)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range symbols.Unexpected(used, exceptions) {
		t.Errorf("%s: HTTP clients are made with internal/peer", problem)
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
	found, err := symbols.In("p.go", source, constructors)
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
