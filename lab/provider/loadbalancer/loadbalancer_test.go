package loadbalancer

import (
	"bufio"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// at is a probe that ended some time after the beginning.
type at struct {
	p     probe
	after time.Duration
}

func TestHealth(t *testing.T) {
	const ready, not, gone, quiet = answeredReady, answeredNotReady, unreachable, silent
	const s, ms = time.Second, time.Millisecond
	tests := map[string]struct {
		probes []at
		ready  string // one letter a probe: r ready, - not ready, L lost
	}{
		"ready at once":                  {[]at{{ready, 0}, {ready, s}}, "rr"},
		"flips without loss":             {[]at{{ready, 0}, {not, s}, {ready, 2 * s}}, "r-r"},
		"refused is lost at once":        {[]at{{ready, 0}, {gone, s}, {ready, 2 * s}}, "rLr"},
		"silent for long is lost":        {[]at{{ready, 0}, {quiet, 3 * s}, {quiet, 5 * s}}, "rrL"},
		"unready for long is lost":       {[]at{{ready, 0}, {not, 3 * s}, {not, 5 * s}, {ready, 6 * s}}, "r-Lr"},
		"ready counts again":             {[]at{{ready, 0}, {quiet, 4 * s}, {ready, 5 * s}, {not, 9 * s}}, "rrr-"},
		"silence does not make it ready": {[]at{{ready, 0}, {not, s}, {quiet, 3 * s}}, "r--"},
		"never ready":                    {[]at{{quiet, 0}, {not, s}, {ready, 2 * s}}, "LLr"},
		// These answers were recorded while etcd was away.
		"slow and not ready alternate": {[]at{
			{ready, 0}, {quiet, 2515 * ms}, {quiet, 4522 * ms}, {not, 4543 * ms}, {not, 4997 * ms},
			{quiet, 7495 * ms}, {quiet, 9496 * ms}, {not, 9499 * ms},
		}, "rrr--LLL"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			var h health
			got := ""
			for _, step := range test.probes {
				var lost bool
				h, lost = h.next(step.p, began.Add(step.after), 5*s)
				switch {
				case lost && h.ready:
					t.Error("lost and ready")
				case lost:
					got += "L"
				case h.ready:
					got += "r"
				default:
					got += "-"
				}
			}
			if got != test.ready {
				t.Errorf("%s, want %s", got, test.ready)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	backends, ready := []string{"a", "b", "c"}, map[string]bool{"a": true, "c": true}
	for turn, want := range [][]string{{"a", "c"}, {"c", "a"}, {"c", "a"}, {"a", "c"}} {
		if diff := cmp.Diff(want, order(backends, ready, turn)); diff != "" {
			t.Errorf("turn %d: %s", turn, diff)
		}
	}
	if got := order(nil, ready, 3); got != nil {
		t.Errorf("no backends: %v", got)
	}
}

// apiServer is a backend that answers /readyz as told, and keeps other requests open.
type apiServer struct {
	*httptest.Server
	notReady atomic.Bool
}

func newAPIServer(t *testing.T, name string) *apiServer {
	t.Helper()
	s := &apiServer{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			if s.notReady.Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
		case "/name":
			fmt.Fprintln(w, name)
		case "/watch":
			fmt.Fprintln(w, name)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) address() string { return s.Listener.Addr().String() }

// world is a balancer with its clients.
type world struct {
	*Balancer
	t       *testing.T
	changed chan struct{}
	address string
}

// start starts a balancer that keeps the connections of a backend as long as it answers.
func start(t *testing.T, servers ...*apiServer) *world {
	t.Helper()
	return startWith(t, Options{Patience: time.Hour}, servers...)
}

func startWith(t *testing.T, options Options, servers ...*apiServer) *world {
	t.Helper()
	w := &world{t: t, changed: make(chan struct{}, 100)}
	options.Interval, options.Timeout = time.Millisecond, 10*time.Second
	options.Changed = func() { w.changed <- struct{}{} }
	w.Balancer = New(options)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = listener.Addr().String()
	go w.Serve(listener)
	t.Cleanup(w.Close)
	w.set(servers...)
	return w
}

func (w *world) set(servers ...*apiServer) {
	var backends Backends
	for _, s := range servers {
		backends.Addresses = append(backends.Addresses, s.address())
		backends.CA = append(backends.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})...)
	}
	w.Set(backends)
}

// await waits until n backends are ready.
func (w *world) await(n int) {
	w.t.Helper()
	for len(w.Ready()) != n {
		<-w.changed
	}
}

// get makes a request on a connection of its own.
func (w *world) get(s *apiServer, path string) (*http.Response, error) {
	transport, ok := s.Client().Transport.(*http.Transport)
	if !ok {
		return nil, errors.New("the test server has another transport")
	}
	transport = transport.Clone()
	transport.DisableKeepAlives = true
	return (&http.Client{Transport: transport}).Get("https://" + w.address + path)
}

func (w *world) name(s *apiServer) string {
	w.t.Helper()
	response, err := w.get(s, "/name")
	if err != nil {
		return "error"
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// watch opens a request that does not end. The function returns the error with which it ends.
func (w *world) watch(s *apiServer) (name string, ended func() error) {
	w.t.Helper()
	response, err := w.get(s, "/watch")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewReader(response.Body)
	name, err = lines.ReadString('\n')
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(name), func() error { _, err := lines.ReadString('\n'); return err }
}

func TestConnectionsGoToReadyBackendsInTurn(t *testing.T) {
	a, b := newAPIServer(t, "a"), newAPIServer(t, "b")
	w := start(t, a, b)
	w.await(2)
	seen := map[string]int{}
	for range 10 {
		seen[w.name(a)]++
	}
	if diff := cmp.Diff(map[string]int{"a": 5, "b": 5}, seen); diff != "" {
		t.Error(diff)
	}
}

func TestABackendThatIsNotReadyKeepsItsConnections(t *testing.T) {
	a, b := newAPIServer(t, "a"), newAPIServer(t, "b")
	w := start(t, a)
	w.await(1)
	if name, _ := w.watch(a); name != "a" {
		t.Errorf("connected to %s", name)
	}
	w.set(a, b)
	w.await(2)
	a.notReady.Store(true)
	w.await(1)
	for range 5 {
		if name := w.name(a); name != "b" {
			t.Errorf("a new connection went to %s", name)
		}
	}
	w.mu.Lock()
	open := len(w.backends[a.address()].open)
	w.mu.Unlock()
	if open != 1 {
		t.Errorf("%d connections, want 1", open)
	}
	a.notReady.Store(false)
	w.await(2)
}

// TestABackendThatStaysNotReadyLosesItsConnections has a client go on at another backend.
func TestABackendThatStaysNotReadyLosesItsConnections(t *testing.T) {
	a, b := newAPIServer(t, "a"), newAPIServer(t, "b")
	w := startWith(t, Options{Patience: 20 * time.Millisecond}, a)
	w.await(1)
	_, ended := w.watch(a)
	w.set(a, b)
	w.await(2)
	a.notReady.Store(true)
	if err := ended(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the connection ended with %v, want a reset", err)
	}
	if name := w.name(a); name != "b" {
		t.Errorf("a new connection went to %s", name)
	}
}

// TestTheOnlyBackendKeepsItsConnections: clients of a backend that is not ready are led to another
// one only if there is one.
func TestTheOnlyBackendKeepsItsConnections(t *testing.T) {
	b := New(Options{Patience: time.Nanosecond})
	slow, other := &backend{open: map[*pair]struct{}{}}, &backend{}
	b.backends = map[string]*backend{"slow": slow, "other": other}
	for _, step := range []struct {
		otherReady bool
		p          probe
		want       int
	}{
		{false, answeredNotReady, 1}, {false, silent, 1}, {false, unreachable, 0},
		{true, answeredNotReady, 0}, {true, silent, 0},
	} {
		client, server := net.Pipe()
		slow.open = map[*pair]struct{}{{client: client, server: server}: {}}
		other.health.ready = step.otherReady
		b.record(slow, step.p)
		if got := len(slow.open); got != step.want {
			t.Errorf("%+v: %d connections are open", step, got)
		}
		slow.health.ready = true
	}
}

func TestALostBackendsConnectionsAreReset(t *testing.T) {
	tests := map[string]func(*world, *apiServer, *apiServer){
		// The listener ends, and nothing tells the connections.
		"nothing listens any more": func(_ *world, a, _ *apiServer) { _ = a.Listener.Close() },
		"removed":                  func(w *world, _, b *apiServer) { w.set(b) },
		"closed":                   func(w *world, _, _ *apiServer) { go w.Close() },
	}
	for name, lose := range tests {
		t.Run(name, func(t *testing.T) {
			a, b := newAPIServer(t, "a"), newAPIServer(t, "b")
			w := start(t, a)
			w.await(1)
			_, ended := w.watch(a)
			w.set(a, b)
			w.await(2)
			lose(w, a, b)
			if err := ended(); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("the connection ended with %v, want a reset", err)
			}
		})
	}
}

func TestWithoutABackendConnectionsAreReset(t *testing.T) {
	a := newAPIServer(t, "a")
	a.notReady.Store(true)
	w := start(t, a)
	if name := w.name(a); name != "error" {
		t.Errorf("connected to %s", name)
	}
	a.notReady.Store(false)
	w.await(1)
	if name := w.name(a); name != "a" {
		t.Errorf("connected to %s", name)
	}
}

func TestABackendWithAnotherCAIsNotReady(t *testing.T) {
	a := newAPIServer(t, "a")
	w := start(t, a)
	w.await(1)
	w.Set(Backends{Addresses: []string{a.address()}})
	w.await(0)
}

// exhausted is a listener whose first connections cannot be accepted.
type exhausted struct {
	net.Listener
	failures atomic.Int32
}

func (l *exhausted) Accept() (net.Conn, error) {
	if l.failures.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// TestTooManyOpenFiles: a connection that cannot be accepted does not end the balancer.
func TestTooManyOpenFiles(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	failing := &exhausted{Listener: listener}
	failing.failures.Store(3)
	b := New(Options{Interval: time.Millisecond})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Serve(failing)
	}()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-ended
		_ = client.Close()
	}()
	// Without backends, the balancer resets what it has accepted.
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ends with %v, want a reset", err)
	}
	b.Close()
	<-ended
}
