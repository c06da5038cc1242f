package bounds

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/windlass-dev/windlass/lab/test/wire"
)

// traffic is how many requests a process sent to the API server, and the bytes of their bodies and
// answers.
type traffic struct{ requests, bytes int64 }

// sent is what reconcilers may send of one kind of request.
type sent struct {
	// once is how many requests there are however often they reconcile. per is how many there are for
	// each reconcile of the reconcilers named by.
	once, per float64
	by        []string
	// with are kinds of requests. There is one for each of them.
	with []string
	// size is how many bytes a request and its answer have on average.
	size int64
}

// slack is for requests of reconciles that have not ended when they are counted.
const slack = 50

// meter counts what a process sends to the API server, by verb and resource.
type meter struct {
	mu   sync.Mutex
	seen map[string]traffic
}

// newMeter returns the plane behind a meter.
func newMeter(t *testing.T, plane *wire.Plane) (*meter, *wire.Plane) {
	t.Helper()
	m := &meter{seen: map[string]traffic{}}
	return m, plane.Through(t, func(forward http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			kind := kindOf(r)
			m.add(kind, traffic{requests: 1})
			// Bytes count as the process reads them.
			r.Header.Del("Accept-Encoding")
			r.Body = &countedBody{ReadCloser: r.Body, meter: m, kind: kind}
			forward.ServeHTTP(&countedAnswer{ResponseWriter: w, meter: m, kind: kind}, r)
		})
	})
}

func (m *meter) add(kind string, more traffic) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.seen[kind]
	m.seen[kind] = traffic{before.requests + more.requests, before.bytes + more.bytes}
}

func (m *meter) counted() map[string]traffic {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.seen)
}

type countedBody struct {
	io.ReadCloser
	meter *meter
	kind  string
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.meter.add(b.kind, traffic{bytes: int64(n)})
	return n, err
}

type countedAnswer struct {
	http.ResponseWriter
	meter *meter
	kind  string
}

// Write implements io.Writer.
func (a *countedAnswer) Write(p []byte) (int, error) {
	n, err := a.ResponseWriter.Write(p)
	a.meter.add(a.kind, traffic{bytes: int64(n)})
	return n, err
}

// Unwrap lets the proxy flush what is watched.
func (a *countedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// kindOf returns the verb and the resource of a request, such as "list machines".
func kindOf(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return "discovery"
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	resource := parts[0]
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	verb := strings.ToLower(r.Method)
	switch {
	case r.Method != http.MethodGet:
	case r.URL.Query().Get("watch") != "":
		verb = "watch"
	case len(parts) == 1:
		verb = "list"
	}
	return verb + " " + resource
}
