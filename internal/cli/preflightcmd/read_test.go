package preflightcmd

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windlass-dev/windlass/pkg/version"
)

// TestStartOf asks API servers for their version.
func TestStartOf(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		serve     http.HandlerFunc
		want, err string
	}{
		"a version": {serve: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"gitVersion":"v1.35.2"}`))
		}, want: "v1.35.2"},
		"an answer that does not end": {serve: func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`{"gitVersion":`))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, err: "context deadline exceeded"},
		"a request to wait": {serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}, err: "context deadline exceeded"},
		"no version": {serve: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`[]`))
		}, err: "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tt.serve)
			t.Cleanup(server.Close)
			remote, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			timeout := time.Minute
			if strings.Contains(tt.err, "deadline") {
				timeout = time.Second
			}
			got, err := startOf(t.Context(), version.Version{}, remote, timeout)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("the error is %v, want %q", err, tt.err)
			}
			if err == nil && got.String() != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
