package peers_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/windlass-dev/windlass/lab/test/wire"
)

// port is a port of a process, and how many connections of one address it serves.
type port struct {
	address string
	secure  bool
	most    int
}

// TestHostilePorts sends long headers to all ports of both processes, many at once, and opens more
// connections than one address may have. The process refuses them, keeps its memory, and serves others.
func TestHostilePorts(t *testing.T) {
	t.Parallel()
	plane := wire.Start(t)
	strip := func(url string) string { return url[strings.LastIndex(url, "/")+1:] }
	const calls, diagnostics = 500, 50
	manager := plane.RunManager(t, "--insecure-diagnostics=false", "--namespace", plane.Namespace(t))
	insecure := plane.RunManager(t, "--namespace", plane.Namespace(t))
	extension := plane.Run(t)
	for name, tt := range map[string]struct {
		process *wire.Process
		ports   map[string]port
	}{
		"manager": {manager, map[string]port{
			"webhooks": {strip(manager.Webhooks), true, calls}, "health": {strip(manager.Health), false, calls},
			"diagnostics": {manager.Diagnostics, true, diagnostics},
		}},
		"manager, insecure": {insecure, map[string]port{"diagnostics": {insecure.Diagnostics, false, diagnostics}}},
		"extension": {extension, map[string]port{
			"hooks": {strip(extension.Hooks), true, calls}, "guard": {strip(extension.Guard), true, calls},
			"health": {strip(extension.Health), false, calls}, "diagnostics": {extension.Diagnostics, true, diagnostics},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for of, p := range tt.ports {
				t.Run(of, p.test)
			}
			checkMemory(t, tt.process)
			tt.process.AwaitReady(t)
		})
	}
}

func (p port) test(t *testing.T) {
	const callers, rounds, long = 16, 10, 256 << 10
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			for range rounds {
				if code := p.get(p.connect(t, "127.0.0.2"), long); code != 0 && code != http.StatusRequestHeaderFieldsTooLarge {
					t.Errorf("a header of %d bytes: %d", long, code)
				}
			}
		})
	}
	wait.Wait()
	for i := range p.most {
		if p.get(p.connect(t, "127.0.0.3"), 0) == 0 {
			t.Fatalf("connection %d of an address is refused", i+1)
		}
	}
	if code := p.get(p.connect(t, "127.0.0.3"), 0); code != 0 {
		t.Errorf("connection %d of an address: %d", p.most+1, code)
	}
	if code := p.get(p.connect(t, "127.0.0.4"), 0); code == 0 {
		t.Error("another address is refused")
	}
}

// connect connects from an address. The connection ends with the test.
func (p port) connect(t *testing.T, from string) net.Conn {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	connection, err := dialer.DialContext(t.Context(), "tcp", p.address)
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { _ = connection.Close() })
	if p.secure {
		// Only whether it answers counts.
		return tls.Client(connection, &tls.Config{InsecureSkipVerify: true})
	}
	return connection
}

// get sends a request with a header of so many bytes, and returns the status; 0 if there is no answer.
func (p port) get(connection net.Conn, header int) int {
	if connection == nil {
		return 0
	}
	_, _ = io.WriteString(connection, "GET / HTTP/1.1\r\nHost: x\r\nX-Long: "+strings.Repeat("x", header)+"\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode
}
