package diagnostics

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/util/flags"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/windlass-dev/windlass/internal/httplimit"
	"github.com/windlass-dev/windlass/test/loopback"
)

// hung is when a connection counts as forgotten by the server. It is longer than any bound of the server.
const hung = 5 * time.Minute

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

// ports are what a manager serves by package diagnostics, and their bounds.
func ports(t *testing.T, mgr *runnables) map[string]httplimit.Bounds {
	t.Helper()
	urls := map[string]httplimit.Bounds{}
	address := func(scheme, path string, bounds httplimit.Bounds) string {
		host := fmt.Sprintf("127.0.0.1:%d", loopback.FreePort(t))
		urls[scheme+"://"+host+path] = bounds
		return host
	}
	for insecure, scheme := range map[bool]string{true: "http", false: "https"} {
		_, options, err := Options(flags.ManagerOptions{
			TLSMinVersion: "VersionTLS12", InsecureDiagnostics: insecure,
			DiagnosticsAddress: address(scheme, "/metrics", httplimit.ForDiagnostics),
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
	health := address("http", "/healthz", httplimit.ForCalls)
	if err := AddHealth(t.Context(), mgr, health, alive, alive); err != nil {
		t.Fatal(err)
	}
	profiles := address("http", "/debug/pprof/cmdline", httplimit.ForDiagnostics)
	if err := AddProfiles(t.Context(), mgr, profiles); err != nil {
		t.Fatal(err)
	}
	return urls
}

// TestBounds sends long headers to each port, and opens more connections than one address may have, and
// fills the port from several addresses with requests whose bodies never arrive. The port answers long
// headers with an error before any token is reviewed, and serves others meanwhile.
func TestBounds(t *testing.T) {
	t.Parallel()
	mgr := &runnables{}
	urls := ports(t, mgr)
	for _, runnable := range mgr.all {
		if server, ok := runnable.(*manager.Server); ok {
			server.Server.ReadTimeout = 0 // No deadline helps those who wait for a place.
		}
	}
	mgr.start(t)
	if len(urls) != 4 || len(mgr.all) != 4 {
		t.Fatalf("%d servers at %v", len(mgr.all), urls)
	}
	for target, bounds := range urls {
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
			oldest := c.connect("127.0.0.2")
			for range bounds.OfAddress - 2 {
				c.connect("127.0.0.2")
			}
			last, want := c.connect("127.0.0.2"), http.StatusOK
			if parsed.Scheme == "https" {
				want = http.StatusUnauthorized
			}
			if code := c.get(last, 0); code != want {
				t.Errorf("a connection within the bound: %d, want %d", code, want)
			}
			if code := c.get(c.connect("127.0.0.2"), 0); code != 0 {
				t.Errorf("connection %d of an address: %d", bounds.OfAddress+1, code)
			}
			for i := range bounds.Connections / bounds.OfAddress {
				c.stick(fmt.Sprintf("127.0.1.%d", i), bounds.OfAddress)
			}
			if code := c.get(c.connect("127.0.0.4"), 0); code != want {
				t.Errorf("another address, while the port is full: %d, want %d", code, want)
			}
			if _, err := io.Copy(io.Discard, oldest); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the oldest connection remains")
			}
		})
	}
}

// TestMetricsOfCallersThatDoNotRead has callers read nothing of as many answers as are given at once.
// Another caller gets its answer.
func TestMetricsOfCallersThatDoNotRead(t *testing.T) {
	t.Parallel()
	mux, err := newMux(nil, metricsserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	request := func(i int) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", i)
		return r
	}
	var all sync.WaitGroup
	var stuck []*unread
	for i := range gathersAtOnce {
		w := &unread{
			ResponseRecorder: httptest.NewRecorder(), writing: make(chan struct{}), ended: make(chan struct{}),
		}
		stuck = append(stuck, w)
		all.Go(func() { mux.ServeHTTP(w, request(i)) })
		<-w.writing
	}
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, request(gathersAtOnce))
	if answer.Code != http.StatusOK || answer.Body.Len() == 0 {
		t.Errorf("another caller: %d, %d bytes", answer.Code, answer.Body.Len())
	}
	for i, w := range stuck {
		if first := i == 0; w.isEnded() != first {
			t.Errorf("answer %d has ended: %t, want %t", i, w.isEnded(), first)
		}
		w.end()
	}
	all.Wait()
}

// unread is an answer that nobody reads. Its writes return once it has a deadline.
type unread struct {
	*httptest.ResponseRecorder

	writing, ended       chan struct{}
	writingOnce, endOnce sync.Once
}

func (u *unread) Write([]byte) (int, error) {
	u.writingOnce.Do(func() { close(u.writing) })
	<-u.ended
	return 0, os.ErrDeadlineExceeded
}

// SetWriteDeadline is what http.ResponseController calls.
func (u *unread) SetWriteDeadline(time.Time) error {
	u.end()
	return nil
}

func (u *unread) end() { u.endOnce.Do(func() { close(u.ended) }) }

func (u *unread) isEnded() bool {
	select {
	case <-u.ended:
		return true
	default:
		return false
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
	// Only a connection that the server forgets lasts so long.
	if err := connection.SetDeadline(time.Now().Add(hung)); err != nil {
		c.t.Error(err)
	}
	if c.url.Scheme == "https" {
		// The server signs its certificate itself.
		return tls.Client(connection, &tls.Config{InsecureSkipVerify: true})
	}
	return connection
}

// stick opens so many connections from an address, each with a request whose body does not arrive. The
// server has accepted all of them before it accepts a later one.
func (c caller) stick(from string, count int) {
	for range count {
		_, _ = io.WriteString(c.connect(from),
			"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
	}
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
