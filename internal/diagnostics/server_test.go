package diagnostics

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/util/flags"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windlass-dev/windlass/internal/httplimit"
	"github.com/windlass-dev/windlass/test/loopback"
)

// runnables is a manager that only starts what is added to it.
type runnables struct {
	manager.Manager

	api reviews
	all []manager.Runnable
}

func (r *runnables) Add(runnable manager.Runnable) error {
	r.all = append(r.all, runnable)
	return nil
}

func (*runnables) GetConfig() *rest.Config { return &rest.Config{Host: "https://api.example"} }

func (r *runnables) GetHTTPClient() *http.Client { return &http.Client{Transport: &r.api} }

// start starts what was added, until the test ends.
func (r *runnables) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, len(r.all))
	for _, runnable := range r.all {
		go func() { ended <- runnable.Start(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range r.all {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// ports are what a manager serves by package diagnostics, and how many connections of one address.
func ports(t *testing.T, mgr *runnables) map[string]int {
	t.Helper()
	urls := map[string]int{}
	address := func(scheme, path string, most int) string {
		host := fmt.Sprintf("127.0.0.1:%d", loopback.FreePort(t))
		urls[scheme+"://"+host+path] = most
		return host
	}
	for insecure, scheme := range map[bool]string{true: "http", false: "https"} {
		_, options, err := Options(flags.ManagerOptions{
			TLSMinVersion: "VersionTLS12", InsecureDiagnostics: insecure,
			DiagnosticsAddress: address(scheme, "/metrics", httplimit.ForDiagnostics.OfAddress),
		})
		if err != nil {
			t.Fatal(err)
		}
		options.CertDir = t.TempDir()
		if err := Add(t.Context(), mgr, options); err != nil {
			t.Fatal(err)
		}
	}
	alive := map[string]healthz.Checker{"ping": healthz.Ping}
	health := address("http", "/healthz", httplimit.ForCalls.OfAddress)
	if err := AddHealth(t.Context(), mgr, health, alive, alive); err != nil {
		t.Fatal(err)
	}
	profiles := address("http", "/debug/pprof/cmdline", httplimit.ForDiagnostics.OfAddress)
	if err := AddProfiles(t.Context(), mgr, profiles); err != nil {
		t.Fatal(err)
	}
	return urls
}

// TestBounds sends long headers to each port, and opens more connections than one address may have. The
// port answers long headers with an error before any token is reviewed, and serves others meanwhile.
func TestBounds(t *testing.T) {
	t.Parallel()
	mgr := &runnables{}
	urls := ports(t, mgr)
	mgr.start(t)
	if len(urls) != 4 || len(mgr.all) != 4 {
		t.Fatalf("%d servers at %v", len(mgr.all), urls)
	}
	for target, most := range urls {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			parsed, err := url.Parse(target)
			if err != nil {
				t.Fatal(err)
			}
			c := caller{t: t, url: parsed}
			loopback.Eventually(t, "the port is open", func() bool { return c.connect("127.0.0.3") != nil })
			if code := c.get(c.connect("127.0.0.1"), 64<<10); code != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("a header of 64 KiB: %d", code)
			}
			if mgr.api.count.Load() != 0 {
				t.Error("a token was reviewed")
			}
			var idle []net.Conn
			for range most {
				idle = append(idle, c.connect("127.0.0.2"))
			}
			want := http.StatusOK
			if parsed.Scheme == "https" {
				want = http.StatusUnauthorized
			}
			if code := c.get(idle[0], 0); code != want {
				t.Errorf("a connection within the bound: %d, want %d", code, want)
			}
			if code := c.get(c.connect("127.0.0.2"), 0); code != 0 {
				t.Errorf("connection %d of an address: %d", most+1, code)
			}
			if code := c.get(c.connect("127.0.0.4"), 0); code != want {
				t.Errorf("another address: %d, want %d", code, want)
			}
		})
	}
}

// caller connects to one port.
type caller struct {
	t   *testing.T
	url *url.URL
}

// connect connects from an address; nil where the port is closed.
func (c caller) connect(from string) net.Conn {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	connection, err := dialer.DialContext(c.t.Context(), "tcp", c.url.Host)
	if err != nil {
		return nil
	}
	c.t.Cleanup(func() { _ = connection.Close() })
	if c.url.Scheme == "https" {
		// The server signs its certificate itself.
		return tls.Client(connection, &tls.Config{InsecureSkipVerify: true})
	}
	return connection
}

// get sends a request with a header of so many bytes, and returns the status; 0 where there is none.
func (c caller) get(connection net.Conn, header int) int {
	_, _ = io.WriteString(connection, "GET "+c.url.Path+" HTTP/1.1\r\nHost: x\r\nX-Long: "+
		strings.Repeat("x", header)+"\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		c.t.Logf("no answer: %v", err)
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}
