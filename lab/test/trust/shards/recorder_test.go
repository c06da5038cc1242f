package shards

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/windlass-dev/windlass/lab/test/wire"
)

// recorder forwards requests of one process to the API server, and keeps which objects it wrote.
type recorder struct {
	// plane is the API server behind the recorder.
	plane *wire.Plane

	mu     sync.Mutex
	writes []string
}

func newRecorder(t *testing.T, plane *wire.Plane) *recorder {
	t.Helper()
	r := &recorder{}
	r.plane = plane.Through(t, func(forward http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			if request.Method != http.MethodGet {
				r.mu.Lock()
				r.writes = append(r.writes, request.URL.Path)
				r.mu.Unlock()
			}
			forward.ServeHTTP(w, request)
		})
	})
	return r
}

// written returns the paths of the writes to objects of a namespace.
func (r *recorder) written(namespace string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.writes), func(path string) bool {
		return !strings.Contains(path, "/namespaces/"+namespace+"/")
	})
}

// keep drops the writes to other kinds of objects.
func (r *recorder) keep(kinds ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = slices.DeleteFunc(r.writes, func(path string) bool {
		return !slices.Contains(kinds, resource(path))
	})
}

// forget drops the writes to a kind of objects.
func (r *recorder) forget(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = slices.DeleteFunc(r.writes, func(path string) bool { return resource(path) == kind })
}

// resource returns the plural kind in the path of an object of a namespace.
func resource(path string) string {
	_, rest, _ := strings.Cut(path, "/namespaces/")
	parts := strings.Split(rest, "/")
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}
