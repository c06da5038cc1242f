package hookserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/windlass-dev/windlass/internal/hookserver"
)

// serveLimited serves a handler until the test ends, and returns the address.
func serveLimited(t *testing.T, handler http.Handler, change func(*http.Server)) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := hookserver.NewLimitedServer("test", listener, handler)
	change(server.Server)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		_ = server.Server.Close() // Connections without a request are not waited for.
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// TestHeaders sends long headers to a limited server, and to the one of hooks.
func TestHeaders(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	hooks, _ := serveCallers(t, ca, ca)
	plain := "http://" + serveLimited(t, http.NotFoundHandler(), func(*http.Server) {})
	for name, tt := range map[string]struct {
		client *http.Client
		url    string
	}{
		"plain": {http.DefaultClient, plain}, "hooks": {caller(t, ca, &ca), hooks},
	} {
		for size, want := range map[int]bool{1 << 10: true, 64 << 10: false} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tt.url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("X-Long", strings.Repeat("x", size))
			response, err := tt.client.Do(request)
			read := err == nil && response.StatusCode != http.StatusRequestHeaderFieldsTooLarge
			if err == nil {
				_ = response.Body.Close()
			}
			if read != want {
				t.Errorf("%s: a header of %d bytes is read: %t, %v", name, size, read, err)
			}
		}
	}
}

// TestConnections opens more connections than a limited server accepts. The last one is served once others
// have left.
func TestConnections(t *testing.T) {
	t.Parallel()
	const most, beyond = 1000, 10
	var mu sync.Mutex
	open, longest := 0, 0
	address := serveLimited(t, http.NotFoundHandler(), func(s *http.Server) {
		s.ConnState = func(_ net.Conn, state http.ConnState) {
			mu.Lock()
			defer mu.Unlock()
			switch state {
			case http.StateNew:
				open++
			case http.StateClosed:
				open--
			case http.StateActive, http.StateIdle, http.StateHijacked:
			}
			longest = max(longest, open)
		}
	})
	connections := make([]net.Conn, 0, most+beyond)
	for range cap(connections) {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		connections = append(connections, connection)
	}
	last := connections[len(connections)-1]
	if _, err := fmt.Fprint(last, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for _, connection := range connections[:beyond] {
		if err := connection.Close(); err != nil {
			t.Fatal(err)
		}
	}
	response, err := http.ReadResponse(bufio.NewReader(last), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if longest > most {
		t.Errorf("%d connections at a time", longest)
	}
}
