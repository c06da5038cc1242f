package hookclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windlass-dev/windlass/internal/hookclient"
	"github.com/windlass-dev/windlass/test/loopback"
)

// hooksV1 is what the hooks' apiVersion is.
const hooksV1 = "hooks.runtime.cluster.x-k8s.io/v1alpha1"

func newCatalog(t *testing.T) *runtimecatalog.Catalog {
	t.Helper()
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	return catalog
}

// newClient returns a Client that knows two namespaces, of which "prod" has the label tier=prod.
func newClient(t *testing.T, change ...func(*hookclient.Options)) *hookclient.Client {
	t.Helper()
	o := hookclient.Options{Catalog: newCatalog(t), Namespaces: namespaces()}
	for _, c := range change {
		c(&o)
	}
	c, err := hookclient.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func namespaces() client.Client {
	return fake.NewClientBuilder().WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod", Labels: map[string]string{"tier": "prod"}}},
	).Build()
}

func warm(t *testing.T, c *hookclient.Client, configs ...*runtimev1.ExtensionConfig) {
	t.Helper()
	list := &runtimev1.ExtensionConfigList{}
	for _, config := range configs {
		list.Items = append(list.Items, *config)
	}
	if err := c.WarmUp(list); err != nil {
		t.Fatal(err)
	}
}

func cluster(namespace string) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}}
}

// extension is a TLS server that notes what it is asked.
type extension struct {
	*httptest.Server

	// connections counts those that were accepted.
	connections atomic.Int32

	mu       sync.Mutex
	requests []received
}

type received struct {
	path, query, contentType string
	body                     map[string]any
}

// serve starts an extension. Its errors, which tests provoke, are not shown.
func serve(t *testing.T, handler http.HandlerFunc, change ...func(*tls.Config)) *extension {
	t.Helper()
	e := &extension{}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		got := received{path: r.URL.Path, query: r.URL.RawQuery, contentType: r.Header.Get("Content-Type")}
		_ = json.Unmarshal(content, &got.body)
		e.mu.Lock()
		e.requests = append(e.requests, got)
		e.mu.Unlock()
		handler(w, r)
	}))
	e.EnableHTTP2 = true
	e.Config.ErrorLog = log.New(io.Discard, "", 0)
	e.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			e.connections.Add(1)
		}
	}
	e.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	for _, c := range change {
		c(e.TLS)
	}
	e.StartTLS()
	t.Cleanup(e.Close)
	return e
}

func (e *extension) received() []received {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]received(nil), e.requests...)
}

func (e *extension) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw})
}

// config registers the extension with handlers.
func (e *extension) config(name string, handlers ...string) *runtimev1.ExtensionConfig {
	config := extensionConfig(name, handlers...)
	config.Spec.ClientConfig = runtimev1.ClientConfig{URL: e.URL, CABundle: e.ca()}
	return config
}

// extensionConfig has handlers, given as "hook/name" or "hook/name/policy".
func extensionConfig(name string, handlers ...string) *runtimev1.ExtensionConfig {
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7"}}
	for _, h := range handlers {
		parts := strings.Split(h, "/")
		policy := runtimev1.FailurePolicyFail
		if len(parts) > 2 {
			policy = runtimev1.FailurePolicy(parts[2])
		}
		config.Status.Handlers = append(config.Status.Handlers, runtimev1.ExtensionHandler{
			Name: parts[1] + "." + name, RequestHook: runtimev1.GroupVersionHook{APIVersion: hooksV1, Hook: parts[0]},
			TimeoutSeconds: 20, FailurePolicy: policy,
		})
	}
	return config
}

// answers serves fixed bodies by the last part of the path, with the status 200.
func answers(bodies map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, ok := bodies[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, body)
	}
}

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// callUpgrade calls all extensions for BeforeClusterUpgrade.
func callUpgrade(ctx context.Context, c *hookclient.Client, namespace string) (*runtimehooksv1.BeforeClusterUpgradeResponse, error) {
	response := &runtimehooksv1.BeforeClusterUpgradeResponse{}
	err := c.CallAllExtensions(ctx, runtimehooksv1.BeforeClusterUpgrade, cluster(namespace), &runtimehooksv1.BeforeClusterUpgradeRequest{}, response)
	return response, err
}

// authority issues certificates.
type authority struct{ *loopback.Authority }

func newAuthority(t *testing.T) authority {
	t.Helper()
	return authority{loopback.NewAuthority(t, "test CA")}
}

// issue returns a certificate for 127.0.0.1 that expires at a time.
func (a authority) issue(t *testing.T, serial int64, until time.Time) loopback.Identity {
	t.Helper()
	return a.Issue(t, "test", until, func(c *x509.Certificate) {
		c.SerialNumber, c.NotBefore = big.NewInt(serial), time.Now().Add(-2*time.Hour)
	})
}

// pair issues a certificate for a server.
func (a authority) pair(t *testing.T, serial int64, until time.Time) tls.Certificate {
	t.Helper()
	return a.issue(t, serial, until).Pair(t)
}

// recordingSink is a logr.LogSink that keeps the messages.
type recordingSink struct {
	mu    *sync.Mutex
	lines *[]string
}

// record returns a context whose logger writes to the lines that the function returns.
func record(ctx context.Context) (recording context.Context, lines func() []string) {
	sink := recordingSink{mu: &sync.Mutex{}, lines: &[]string{}}
	return ctrl.LoggerInto(ctx, logr.New(sink)), func() []string {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		return append([]string(nil), *sink.lines...)
	}
}

func (recordingSink) Init(logr.RuntimeInfo)                     {}
func (recordingSink) Enabled(int) bool                          { return true }
func (s recordingSink) Info(_ int, message string, _ ...any)    { s.add(message) }
func (s recordingSink) Error(_ error, message string, _ ...any) { s.add("ERROR " + message) }
func (s recordingSink) WithValues(...any) logr.LogSink          { return s }
func (s recordingSink) WithName(string) logr.LogSink            { return s }
func (s recordingSink) add(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.lines = append(*s.lines, line)
}

// install writes a certificate and its key as tls.crt and tls.key.
func (a authority) install(t *testing.T, dir string, serial int64) {
	t.Helper()
	a.issue(t, serial, time.Now().Add(time.Hour)).WriteTo(t, dir)
}

// as returns a value as a type that it must have.
func as[T any](t *testing.T, value any) T {
	t.Helper()
	typed, ok := value.(T)
	if !ok {
		t.Fatalf("it is a %T", value)
	}
	return typed
}
