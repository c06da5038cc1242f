package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/httplimit"
)

// hung is when a connection counts as forgotten by the server.
const hung = 2 * time.Minute

// serveLimited serves a handler until the test ends, and returns the address.
func serveLimited(t *testing.T, handler http.Handler, change func(*http.Server)) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httplimit.NewServer("test", listener, httplimit.ForCalls, handler)
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

// TestHeaders sends long headers to a server.
func TestHeaders(t *testing.T) {
	t.Parallel()
	url := "http://" + serveLimited(t, http.NotFoundHandler(), func(*http.Server) {})
	for size, want := range map[int]int{
		1 << 10: http.StatusNotFound, 64 << 10: http.StatusRequestHeaderFieldsTooLarge,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Long", strings.Repeat("x", size))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil || response.StatusCode != want {
			t.Errorf("a header of %d bytes: %s, %v, want %d", size, response.Status, err, want)
		}
	}
}

// TestConnections opens more connections than a limited server accepts of one address. It closes those
// beyond the limit, and serves another address, and the first one once a connection has ended. Then two
// addresses fill the port. The server closes the oldest connection of one for each other address.
func TestConnections(t *testing.T) {
	t.Parallel()
	const most = 500
	closed := make(chan struct{}, 2*most)
	address := serveLimited(t, http.NotFoundHandler(), func(s *http.Server) {
		s.ReadHeaderTimeout, s.ReadTimeout = 0, 0 // The test ends the connections.
		s.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				closed <- struct{}{}
			}
		}
	})
	connect := func(from string) net.Conn {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		connection, err := dialer.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		// Only a connection that the server forgets lasts so long.
		if err := connection.SetDeadline(time.Now().Add(hung)); err != nil {
			t.Error(err)
		}
		return connection
	}
	serves := func(connection net.Conn) error {
		_, _ = io.WriteString(connection, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		response, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err != nil {
			return fmt.Errorf("reading the answer: %w", err)
		}
		return response.Body.Close()
	}
	fill := func(from string, count int) (all []net.Conn) {
		for range count {
			connection := connect(from)
			_, _ = io.WriteString(connection, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
			all = append(all, connection)
		}
		return all
	}
	all := fill("127.0.0.1", most)
	if err := serves(connect("127.0.0.1")); err == nil {
		t.Errorf("connection %d of an address is served", most+1)
	}
	if err := serves(connect("127.0.0.2")); err != nil {
		t.Errorf("another address: %v", err)
	}
	if err := all[0].Close(); err != nil {
		t.Fatal(err)
	}
	<-closed
	if err := serves(connect("127.0.0.1")); err != nil {
		t.Errorf("after a connection has ended: %v", err)
	} // One connection of another address is open, so that the last one takes the place of the oldest.
	fill("127.0.0.3", most)
	for i := range 3 {
		from := fmt.Sprintf("127.0.1.%d", i)
		if err := serves(connect(from)); err != nil {
			t.Fatalf("%s, while the port is full: %v", from, err)
		}
		<-closed
	}
	if _, err := io.Copy(io.Discard, all[1]); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the oldest connection remains")
	}
	if err := serves(connect("127.0.0.3")); err == nil {
		t.Error("an address with the most connections gets one of another address")
	}
}
