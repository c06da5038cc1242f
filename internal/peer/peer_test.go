package peer_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/windlass-dev/windlass/internal/peer"
)

const limit = 4 << 10

// clientOf returns a client of a server, made as each kind of peer has it.
func clientOf(t *testing.T, kind string, server *httptest.Server, timeout time.Duration) *http.Client {
	t.Helper()
	limits := peer.Limits{Timeout: timeout, BodyBytes: limit}
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	if kind == "plain" {
		return peer.NewClient(peer.NewTransport(peer.Connection{TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, Timeout: limits.Timeout}), limits)
	}
	config := peer.Bound(&rest.Config{Host: server.URL, BearerToken: "secret-token"}, limits)
	config.CAData = certificateOf(server)
	transport, err := peer.NewAPIServerTransport(config, limits)
	if err != nil {
		t.Fatal(err)
	}
	return peer.NewClient(transport, limits)
}

func TestClients(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(target.Close)
	const silent = "silent"
	for _, kind := range []string{"plain", "API server"} {
		for name, test := range map[string]struct {
			serve   http.HandlerFunc
			want    int
			tooLong bool
			err     string
		}{
			"as long as allowed": {serve: write(limit), want: limit},
			"one byte longer":    {serve: write(limit + 1), want: limit, tooLong: true},
			"endless":            {serve: endless, want: limit, tooLong: true},
			"huge header": {serve: func(w http.ResponseWriter, _ *http.Request) {
				for i := range 100 {
					w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 4<<10))
				}
			}, err: "header"},
			silent:     {serve: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, err: "timeout|deadline|Timeout"},
			"redirect": {serve: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target.URL, http.StatusFound) }, err: "redirect"},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				server := httptest.NewTLSServer(test.serve)
				defer server.Close()
				timeout := time.Minute
				if name == silent {
					timeout = 500 * time.Millisecond
				}
				response, err := clientOf(t, kind, server, timeout).Get(server.URL)
				if test.err != "" && err == nil && response.StatusCode == http.StatusFound {
					_ = response.Body.Close()
					return // The redirect itself is the answer.
				}
				if (err != nil) != (test.err != "") {
					t.Fatalf("error %v, want %q", err, test.err)
				}
				if err != nil {
					if !containsAny(err.Error(), strings.Split(test.err, "|")) {
						t.Errorf("error %v, want %q", err, test.err)
					}
					return
				}
				defer func() { _ = response.Body.Close() }()
				content, err := io.ReadAll(response.Body)
				var long *peer.TooLongError
				if len(content) != test.want || errors.As(err, &long) != test.tooLong || err != nil && !test.tooLong {
					t.Errorf("read %d bytes and %v, want %d, too long %v", len(content), err, test.want, test.tooLong)
				}
			})
		}
	}
	t.Cleanup(func() {
		if elsewhere.Load() > 0 {
			t.Error("a redirect was followed")
		}
	})
}

// A peer that accepts connections and stays silent keeps none of them after the requests that they
// were made for.
func TestSilentPeer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls, timeout = 3, 300 * time.Millisecond
		accepted, closed := make(chan struct{}), make(chan error, calls)
		transport := peer.NewTransport(peer.Connection{
			Timeout: timeout,
			Dial: func(context.Context, string, string) (net.Conn, error) {
				conn, other := net.Pipe()
				go func() {
					_, err := io.Copy(io.Discard, other)
					closed <- err
				}()
				close(accepted)
				return conn, nil
			},
		})
		for range calls {
			// The request ends once its connection is there.
			accepted = make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-accepted
				cancel()
			}()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://peer.example", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if err == nil {
				_ = response.Body.Close()
				t.Fatalf("it answers %s", response.Status)
			}
			cancel()
		}
		<-time.After(timeout)
		synctest.Wait()
		if open := calls - len(closed); open > 0 {
			t.Fatalf("%d of %d connections are still open", open, calls)
		}
		for range calls {
			if err := <-closed; err != nil {
				t.Error(err)
			}
		}
	})
}

// A request without TLS reaches nobody.
func TestPlainHTTPIsRefused(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	for _, client := range []*http.Client{
		peer.NewClient(peer.NewTransport(peer.Connection{}), peer.Limits{}),
		peer.NewUpgradeClient(peer.NewTransport(peer.Connection{}), peer.Limits{}),
	} {
		if response, err := client.Get(server.URL); !errors.Is(err, peer.ErrPlain) {
			if err == nil {
				_ = response.Body.Close()
			}
			t.Errorf("error %v", err)
		}
	}
	if asked.Load() > 0 {
		t.Error("the request was sent")
	}
}

func write(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, n)) }
}

func endless(w http.ResponseWriter, _ *http.Request) {
	for {
		if _, err := w.Write(make([]byte, 1<<10)); err != nil {
			return
		}
	}
}

func containsAny(s string, words []string) bool {
	for _, word := range words {
		if strings.Contains(s, word) {
			return true
		}
	}
	return false
}
