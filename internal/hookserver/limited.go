package hookserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// These limits bound what callers take before their requests are read. The servers of controller-runtime
// accept any number of connections, and read up to 1 MiB of headers from each.
const (
	maxConnections = 1000
	// maxOfAddress bounds the connections of one caller, so that it leaves others to kubelets and API
	// servers. Cluster API's managers open a connection for each call, and API servers few for all.
	maxOfAddress   = maxConnections / 2
	maxHeaderBytes = 16 << 10
	headerTimeout  = 10 * time.Second
	idleTimeout    = 90 * time.Second
	// shutdownTimeout is how long requests may take to end.
	shutdownTimeout = time.Minute
)

// NewLimitedServer returns a runnable that serves handler on listener. It bounds the number of connections,
// and the size and the time of headers. A connection beyond the limit of its address is closed. One beyond
// the limit of all addresses waits for another one to end.
func NewLimitedServer(name string, listener net.Listener, handler http.Handler) *manager.Server {
	return newLimitedServer(name, limitConnections(listener), handler)
}

func limitConnections(listener net.Listener) net.Listener {
	return &byAddress{Listener: netutil.LimitListener(listener, maxConnections), open: map[string]int{}}
}

// byAddress is a listener that bounds the connections of each address.
type byAddress struct {
	net.Listener

	mu   sync.Mutex
	open map[string]int
}

// Accept implements net.Listener.
func (l *byAddress) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // http.Server tells errors of listeners apart.
		}
		address, _, err := net.SplitHostPort(connection.RemoteAddr().String())
		if err == nil && l.take(address) {
			return &counted{Conn: connection, free: sync.OnceFunc(func() { l.free(address) })}, nil
		}
		_ = connection.Close()
	}
}

func (l *byAddress) take(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[address] >= maxOfAddress {
		return false
	}
	l.open[address]++
	return true
}

func (l *byAddress) free(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[address]--; l.open[address] == 0 {
		delete(l.open, address)
	}
}

// counted is a connection that byAddress counts until it is closed.
type counted struct {
	net.Conn

	free func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.free()
	return c.Conn.Close() //nolint:wrapcheck // It is the connection's own.
}

func newLimitedServer(name string, limited net.Listener, handler http.Handler) *manager.Server {
	timeout := shutdownTimeout
	return &manager.Server{
		Name: name, Listener: limited, ShutdownTimeout: &timeout,
		Server: &http.Server{
			Handler: handler, MaxHeaderBytes: maxHeaderBytes, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		},
	}
}

// limitedTLS is a webhook.Server with the limits of a limited server.
type limitedTLS struct {
	webhook.Server

	options webhook.Options
	started atomic.Bool
}

func newLimitedTLS(options webhook.Options) *limitedTLS {
	return &limitedTLS{Server: webhook.NewServer(options), options: options}
}

// Start implements webhook.Server.
func (s *limitedTLS) Start(ctx context.Context) error {
	config := &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13}
	for _, change := range s.options.TLSOpts {
		change(config)
	}
	certificate, err := certwatcher.New(
		filepath.Join(s.options.CertDir, s.options.CertName), filepath.Join(s.options.CertDir, s.options.KeyName))
	if err != nil {
		return fmt.Errorf("reading the serving certificate: %w", err)
	}
	config.GetCertificate = certificate.GetCertificate
	go func() {
		if err := certificate.Start(ctx); err != nil {
			log.FromContext(ctx).Error(err, "Watching the serving certificate")
		}
	}()
	address := net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", address, err)
	}
	limited := tls.NewListener(limitConnections(listener), config)
	server := newLimitedServer("hooks and webhooks", limited, s.WebhookMux())
	server.Server.BaseContext = func(net.Listener) context.Context { return ctx }
	s.started.Store(true)
	return server.Start(ctx) //nolint:wrapcheck // It names the address.
}

// StartedChecker implements webhook.Server.
func (s *limitedTLS) StartedChecker() healthz.Checker {
	return func(r *http.Request) error {
		if !s.started.Load() {
			return errors.New("the server of hooks has not started")
		}
		dialer := &tls.Dialer{
			NetDialer: &net.Dialer{Timeout: headerTimeout},
			Config:    &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}, //nolint:gosec // Only whether it answers counts.
		}
		address := net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port))
		connection, err := dialer.DialContext(contextOf(r), "tcp", address)
		if err != nil {
			return fmt.Errorf("connecting to the server of hooks: %w", err)
		}
		return connection.Close() //nolint:wrapcheck // It was reached.
	}
}

// contextOf is the context of a request, which may be nil.
func contextOf(r *http.Request) context.Context {
	if r == nil {
		return context.Background()
	}
	return r.Context()
}
