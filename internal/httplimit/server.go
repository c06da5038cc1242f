package httplimit

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/internal/loglimit"
)

// Bounds are the connections of one port.
type Bounds struct {
	// Connections is the number of all connections, and OfAddress of those of one address.
	// When all are open, addresses with fewer connections get those of the address with the most.
	Connections, OfAddress int
}

var (
	// ForCalls are the bounds of ports for hooks, webhooks and probes. Cluster API's managers open a
	// connection for each call, and API servers few for all.
	ForCalls = Bounds{Connections: 1000, OfAddress: 500}
	// ForDiagnostics are the bounds of ports for metrics and profiles.
	ForDiagnostics = Bounds{Connections: 100, OfAddress: 50}
)

// These limits bound what one connection takes before its requests are read. The servers of
// controller-runtime read up to 1 MiB of headers from each of 250 streams of any number of connections.
const (
	maxHeaderBytes = 16 << 10
	headerTimeout  = 10 * time.Second
	idleTimeout    = 90 * time.Second
	// readTimeout is how long a request may take to arrive, also where nobody reads its body. A handler
	// may set another deadline. The deadline ends with the body, and does not count for the handler.
	readTimeout = 30 * time.Second
	// writeTimeout is how long an answer may take, from the end of the headers of its request until
	// the caller has read it. Cluster API and API servers wait for 30 s at most. Handlers of profiles
	// add the duration of the profile.
	writeTimeout = time.Minute
	// maxStreams are the requests at once of one connection. Callers open another one for more.
	maxStreams = 8
	// maxFrame and maxUnread bound what HTTP/2 buffers of a connection. Both are the least that it allows.
	maxFrame, maxUnread = 16 << 10, 64 << 10
	// maxLogged bounds the lines a minute about connections that end with an error, and maxLines those
	// of a kind that callers of webhooks cause, maxLinesEach about one namespace.
	maxLogged, maxLines, maxLinesEach = 5, 60, 10
	// shutdownTimeout is how long requests may take to end.
	shutdownTimeout = time.Minute
)

// NewServer returns a runnable that serves handler on listener, within the bounds. A connection beyond
// the limit of its address is closed. One beyond the limit of all addresses is served in place of the
// oldest connection of the address that has the most, or closed if that is its own.
func NewServer(
	name string, listener net.Listener, bounds Bounds, handler http.Handler,
) *manager.Server {
	return newServer(name, limitConnections(listener, bounds), handler)
}

func limitConnections(listener net.Listener, bounds Bounds) net.Listener {
	return &byAddress{Listener: listener, places: newPlaces(bounds)}
}

// byAddress is a listener that bounds the connections of each address and of all.
type byAddress struct {
	net.Listener

	places *places
}

// Accept implements net.Listener.
func (l *byAddress) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // http.Server tells errors of listeners apart.
		}
		address, _, err := net.SplitHostPort(connection.RemoteAddr().String())
		if err == nil {
			leave, ok := l.places.take(address, func() { _ = connection.Close() })
			if ok {
				return &counted{Conn: connection, leave: leave}, nil
			}
		}
		_ = connection.Close()
	}
}

// counted is a connection that has a place until it is closed.
type counted struct {
	net.Conn

	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close() //nolint:wrapcheck // It is the connection's own.
}

func newServer(name string, limited net.Listener, handler http.Handler) *manager.Server {
	timeout := shutdownTimeout
	errors := loglimit.New(time.Now, maxLogged, maxLogged)
	return &manager.Server{
		Name: name, Listener: limited, ShutdownTimeout: &timeout,
		Server: &http.Server{
			Handler: handler, MaxHeaderBytes: maxHeaderBytes, ReadHeaderTimeout: headerTimeout,
			ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
			IdleTimeout: idleTimeout, ErrorLog: errors.Standard(log.Log, name),
			HTTP2: &http.HTTP2Config{
				MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame,
				MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxUnread,
			},
		},
	}
}

// tlsServer is a webhook.Server with bounds.
type tlsServer struct {
	webhook.Server

	name    string
	options webhook.Options
	bounds  Bounds
	wrap    func(http.Handler) http.Handler
	lines   *loglimit.Lines
	started atomic.Bool
	// reached is set once the server has answered itself.
	reached atomic.Bool
}

// NewTLSServer returns a server that serves the handlers in options.WebhookMux over TLS, within the
// bounds. It wraps each handler that is registered, unless wrap is nil. It is ready once it has answered
// itself. From then on it serves until the process ends, also while others hold all connections.
func NewTLSServer(
	name string, options webhook.Options, bounds Bounds, wrap func(http.Handler) http.Handler,
) webhook.Server {
	if wrap == nil {
		wrap = func(next http.Handler) http.Handler { return next }
	}
	if options.WebhookMux == nil {
		options.WebhookMux = http.NewServeMux()
	}
	return &tlsServer{
		Server: webhook.NewServer(options), name: name, options: options, bounds: bounds, wrap: wrap,
		lines: loglimit.New(time.Now, maxLines, maxLinesEach),
	}
}

// Register implements webhook.Server. It bounds the lines that callers of an admission webhook cause.
func (s *tlsServer) Register(path string, handler http.Handler) {
	if admitting, ok := handler.(*admission.Webhook); ok {
		s.lines.Webhook(admitting)
	}
	s.Server.Register(path, s.wrap(handler))
}

// Start implements webhook.Server.
func (s *tlsServer) Start(ctx context.Context) error {
	config := &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	for _, change := range s.options.TLSOpts {
		change(config)
	}
	if err := s.watchCertificate(ctx, config); err != nil {
		return err
	}
	address := net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", address, err)
	}
	limited := tls.NewListener(limitConnections(listener, s.bounds), config)
	server := newServer(s.name, limited, s.options.WebhookMux)
	server.Server.BaseContext = func(net.Listener) context.Context { return ctx }
	s.started.Store(true)
	return server.Start(ctx) //nolint:wrapcheck // It names the address.
}

// watchCertificate has a server use the certificate in its folder, and follow its changes. It does
// nothing if an option provides the certificate.
func (s *tlsServer) watchCertificate(ctx context.Context, config *tls.Config) error {
	if config.GetCertificate != nil {
		return nil
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
	return nil
}

// StartedChecker implements webhook.Server.
func (s *tlsServer) StartedChecker() healthz.Checker {
	return func(r *http.Request) error {
		if s.reached.Load() {
			return nil
		}
		if !s.started.Load() {
			return fmt.Errorf("the server of %s has not started", s.name)
		}
		dialer := &tls.Dialer{
			NetDialer: &net.Dialer{Timeout: headerTimeout},
			Config:    &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}, //nolint:gosec // Only whether it answers counts.
		}
		address := net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port))
		connection, err := dialer.DialContext(contextOf(r), "tcp", address)
		if err != nil {
			return fmt.Errorf("connecting to the server of %s: %w", s.name, err)
		}
		s.reached.Store(true)
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
