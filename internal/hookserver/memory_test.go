package hookserver_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// memory is a listener whose connections stay in this process, so that the clock of synctest counts
// for them.
type memory struct {
	made   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case conn := <-m.made:
		return conn, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

func (m *memory) Addr() net.Addr { return &net.TCPAddr{} }

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, other := net.Pipe()
	select {
	case m.made <- other:
		return conn, nil
	case <-m.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serveInMemory serves a handler over TLS for the rest of a synctest bubble, and returns a transport
// that connects to it.
func serveInMemory(t *testing.T, config, caller *tls.Config, handler http.Handler) *http.Transport {
	t.Helper()
	// The server would write tickets while its caller writes, and these connections have no buffer.
	config.SessionTicketsDisabled = true
	listener := &memory{made: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: handler, TLSConfig: config, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.ServeTLS(listener, "", "") // It ends when the server is closed.
	}()
	transport := &http.Transport{TLSClientConfig: caller, ForceAttemptHTTP2: true, DialContext: listener.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-ended
	})
	return transport
}
