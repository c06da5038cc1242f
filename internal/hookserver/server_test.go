package hookserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/test/loopback"
)

// authority issues certificates for a test.
type authority struct{ *loopback.Authority }

func newAuthority(t *testing.T) authority {
	t.Helper()
	return authority{loopback.NewAuthority(t, "test CA")}
}

// issue returns a certificate for 127.0.0.1, for servers and clients. Edits change the template.
func (a authority) issue(t *testing.T, serial int64, edits ...func(*x509.Certificate)) loopback.Identity {
	t.Helper()
	number := func(c *x509.Certificate) { c.SerialNumber = big.NewInt(serial) }
	return a.Issue(t, "test", time.Now().Add(time.Hour), append(edits, number)...)
}

// install writes a new serving certificate.
func (a authority) install(t *testing.T, dir string, serial int64) {
	t.Helper()
	a.issue(t, serial).WriteTo(t, dir)
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serve starts a server on loopback and returns its URL once it is ready.
func serve(t *testing.T, o hookserver.Options) string {
	t.Helper()
	o.BindAddress, o.Port = "127.0.0.1", loopback.FreePort(t)
	server, err := hookserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, server.Start, server.Ready)
	return "https://" + net.JoinHostPort(o.BindAddress, strconv.Itoa(o.Port))
}

// run starts a server, waits until it is ready, and ends it with the test.
func run(t *testing.T, start func(context.Context) error, ready healthz.Checker) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	loopback.Eventually(t, "the server is ready", func() bool {
		select {
		case err := <-done:
			done <- nil
			t.Fatalf("the server ended at once: %v", err)
		default:
		}
		return ready(nil) == nil
	})
}

func client(config *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
}

// post sends a body to a hook as Cluster API does, and decodes the answer strictly.
func post(t *testing.T, c *http.Client, url string, body []byte, response any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"?timeout=10s", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("status %s, %v: %s", answer.Status, err, content)
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(response); err != nil {
		t.Fatalf("%v in %s", err, content)
	}
}

// encode gives the bytes that Cluster API sends: the type is filled in from its catalog.
func encode(t *testing.T, hook runtimecatalog.Hook, request runtime.Object) (path string, body []byte) {
	t.Helper()
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	gvh, err := catalog.GroupVersionHook(hook)
	if err != nil {
		t.Fatal(err)
	}
	gvk, err := catalog.Request(gvh)
	if err != nil {
		t.Fatal(err)
	}
	request.GetObjectKind().SetGroupVersionKind(gvk)
	if body, err = json.Marshal(request); err != nil {
		t.Fatal(err)
	}
	name := hookserver.GenerateUpgradePlanHandler
	if gvh.Hook == "Discovery" {
		name = ""
	}
	return runtimecatalog.GVHToPath(gvh, name), body
}

func TestServer(t *testing.T) {
	t.Parallel()
	ca, dir := newAuthority(t), t.TempDir()
	ca.install(t, dir, 2)
	url := serve(t, hookserver.Options{Endpoint: hookserver.Endpoint{CertDir: dir}, Graphs: graphs{stable()}})
	trusting := client(&tls.Config{RootCAs: ca.Pool()})
	planPath, planBody := encode(t, runtimehooksv1.GenerateUpgradePlan, request("v1.29.0", "v1.29.0", "v1.33.0"))

	t.Run("discovery", func(t *testing.T) {
		t.Parallel()
		path, body := encode(t, runtimehooksv1.Discovery, &runtimehooksv1.DiscoveryRequest{})
		var got runtimehooksv1.DiscoveryResponse
		post(t, trusting, url+path, body, &got)
		timeout, policy := int32(10), runtimehooksv1.FailurePolicyFail
		want := []runtimehooksv1.ExtensionHandler{{
			Name:           "generate-upgrade-plan",
			RequestHook:    runtimehooksv1.GroupVersionHook{APIVersion: "hooks.runtime.cluster.x-k8s.io/v1alpha1", Hook: "GenerateUpgradePlan"},
			TimeoutSeconds: &timeout, FailurePolicy: &policy,
		}}
		if diff := cmp.Diff(want, got.Handlers); got.Status != runtimehooksv1.ResponseStatusSuccess || diff != "" {
			t.Errorf("status %s, handlers (-want +got):\n%s", got.Status, diff)
		}
	})
	t.Run("a plan", func(t *testing.T) {
		t.Parallel()
		var got runtimehooksv1.GenerateUpgradePlanResponse
		post(t, trusting, url+planPath, planBody, &got)
		if got.Status != runtimehooksv1.ResponseStatusSuccess || stops(got.ControlPlaneUpgrades) != "v1.30.3 v1.31.2 v1.32.3 v1.33.0" || stops(got.WorkersUpgrades) != "v1.32.3 v1.33.0" {
			t.Errorf("response is %+v", got)
		}
	})
	t.Run("bodies that are no request", func(t *testing.T) {
		t.Parallel()
		for _, body := range []string{``, `{}`, `{"cluster":[]}`, `{"toKubernetesVersion":1}`} {
			var got runtimehooksv1.GenerateUpgradePlanResponse
			post(t, trusting, url+planPath, []byte(body), &got)
			if got.Status != runtimehooksv1.ResponseStatusFailure || got.Message == "" {
				t.Errorf("%q got %+v", body, got)
			}
		}
	})
	t.Run("callers that must fail", func(t *testing.T) {
		t.Parallel()
		for name, config := range map[string]*tls.Config{
			"one that trusts another CA": {RootCAs: newAuthority(t).Pool()},
			"one with an old TLS":        {RootCAs: ca.Pool(), MaxVersion: tls.VersionTLS12},
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+planPath, bytes.NewReader(planBody))
			if err != nil {
				t.Fatal(err)
			}
			if answer, err := client(config).Do(request); err == nil {
				_ = answer.Body.Close()
				t.Errorf("%s got an answer: %s", name, answer.Status)
			}
		}
	})
}

func TestServerReloadsItsCertificate(t *testing.T) {
	t.Parallel()
	ca, dir := newAuthority(t), t.TempDir()
	ca.install(t, dir, 2)
	url := serve(t, hookserver.Options{Endpoint: hookserver.Endpoint{CertDir: dir}, Graphs: graphs{}})
	serial := func() int64 {
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: ca.Pool()}}
		connection, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = connection.Close() }()
		over, ok := connection.(*tls.Conn)
		if !ok {
			t.Fatalf("connection is a %T", connection)
		}
		return over.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 2 {
		t.Fatalf("the server shows certificate %d, want 2", got)
	}
	ca.install(t, dir, 3)
	loopback.Eventually(t, "the new certificate is served", func() bool { return serial() == 3 })
}

func TestNewRefusesPorts(t *testing.T) {
	t.Parallel()
	for _, port := range []int{-1, 0, 65536} {
		if _, err := hookserver.New(hookserver.Options{Endpoint: hookserver.Endpoint{Port: port}}); err == nil {
			t.Errorf("port %d was accepted", port)
		}
	}
}

func TestExtensionConfig(t *testing.T) {
	t.Parallel()
	ca, settings := []byte("PEM"), map[string]string{"graph": "stable"}
	got, err := json.Marshal(hookserver.ExtensionConfig("windlass", "https://127.0.0.1:9443", ca, settings))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"ExtensionConfig","apiVersion":"runtime.cluster.x-k8s.io/v1beta2","metadata":{"name":"windlass"},` +
		`"spec":{"clientConfig":{"url":"https://127.0.0.1:9443","caBundle":"UEVN"},"settings":{"graph":"stable"}}}`
	if string(got) != want {
		t.Errorf("ExtensionConfig is %s, want %s", got, want)
	}
}
