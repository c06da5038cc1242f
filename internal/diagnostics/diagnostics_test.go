package diagnostics

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/util/flags"
)

// reviews is an API server that knows no token.
type reviews struct{ count atomic.Int32 }

func (r *reviews) RoundTrip(*http.Request) (*http.Response, error) {
	r.count.Add(1)
	return &http.Response{
		StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": []string{"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{}}`)),
	}, nil
}

// TestReviewsAreLimited sends many invented tokens at once, in a process whose other requests have no
// limit.
func TestReviewsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, options, err := Options(flags.ManagerOptions{
			TLSMinVersion: "VersionTLS13", DiagnosticsAddress: ":8443",
		})
		if err != nil {
			t.Fatal(err)
		}
		config, server := &rest.Config{Host: "https://api.example"}, &reviews{}
		config.QPS = -1
		filter, err := options.FilterProvider(config, &http.Client{Transport: server})
		if err != nil {
			t.Fatal(err)
		}
		handler, err := filter(logr.Discard(), http.NotFoundHandler())
		if err != nil {
			t.Fatal(err)
		}
		const callers = 100
		answers := make([]*httptest.ResponseRecorder, callers)
		var all sync.WaitGroup
		for i := range callers {
			answers[i] = httptest.NewRecorder()
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
			request.Header.Set("Authorization", fmt.Sprintf("Bearer invented-%d", i))
			all.Go(func() { handler.ServeHTTP(answers[i], request) })
		}
		synctest.Wait()
		if got := server.count.Load(); got != reviewsAtOnce {
			t.Errorf("%d tokens cause %d reviews at once, want %d", callers, got, reviewsAtOnce)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if got := server.count.Load(); got != reviewsAtOnce+reviewsPerSecond {
			t.Errorf("they cause %d reviews within a second, want %d", got, reviewsAtOnce+reviewsPerSecond)
		}
		all.Wait()
		for i, answer := range answers {
			if answer.Code != http.StatusUnauthorized && answer.Code != http.StatusInternalServerError {
				t.Errorf("caller %d gets %d", i, answer.Code)
			}
		}
		if config.RateLimiter != nil {
			t.Error("the limit is one for all requests of the process")
		}
	})
}
