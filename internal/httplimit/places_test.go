package httplimit_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/windlass-dev/windlass/internal/httplimit"
)

// pipes is a listener in memory, whose connections are unbuffered.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case connection := <-p.accept:
		return connection, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (*pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// connect returns a connection from an address.
func (p *pipes) connect(from byte) net.Conn {
	client, server := net.Pipe()
	p.accept <- &addressed{Conn: server, from: from}
	return client
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn

	from byte
}

func (a *addressed) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, a.from), Port: 1}
}

// TestRequestsEnd has callers that send no body, or read no answer. The server ends their requests by
// itself: a server that waits for them indefinitely is a deadlock, which synctest reports.
func TestRequestsEnd(t *testing.T) {
	t.Parallel()
	const head = " / HTTP/1.1\r\nHost: x\r\n"
	for name, request := range map[string]string{
		"no body": "POST" + head + "Content-Length: 100\r\n\r\n", "no header": "GET" + head,
		"nothing is read": "GET" + head + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				listener := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
				ended := make(chan struct{})
				handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
				})
				server := httplimit.NewServer("test", listener, httplimit.ForCalls, handler)
				server.Server.ConnState = func(_ net.Conn, state http.ConnState) {
					if state == http.StateClosed {
						close(ended)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				stopped := make(chan error, 1)
				go func() { stopped <- server.Start(ctx) }()
				connection := listener.connect(2)
				if _, err := io.WriteString(connection, request); err != nil {
					t.Fatal(err)
				}
				<-ended
				cancel()
				if err := <-stopped; err != nil {
					t.Error(err)
				}
				_ = connection.Close()
			})
		})
	}
}
