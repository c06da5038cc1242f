package loadbalancer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Options of a Balancer. The zero value is for API servers.
type Options struct {
	// Interval is the time between two requests for /readyz. Default: 500 ms.
	Interval time.Duration
	// Timeout bounds a request for /readyz, and dialing a backend. Default: 2 s.
	Timeout time.Duration
	// Patience is how long a backend may be slow or not ready until its connections are reset, if
	// another one is ready: a busy API server is slow, and one that ends in order completes its
	// requests. Default: 5 s.
	Patience time.Duration
	// Changed is called when a backend has become ready, or is not any more. It must not call the Balancer.
	Changed func()
}

// Backends are what a Balancer forwards to.
type Backends struct {
	// Addresses are HOST:PORT.
	Addresses []string
	// CA verifies the backends' certificates, in PEM.
	CA []byte
}

// Balancer forwards connections. It is safe for concurrent use.
type Balancer struct {
	options Options
	done    sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	closed   bool
	turn     int
	order    []string
	backends map[string]*backend
}

// backend is an address with its health and its connections. The Balancer's lock guards it.
type backend struct {
	address string
	health  health
	roots   *x509.CertPool
	stop    context.CancelFunc
	open    map[*pair]struct{}
}

// pair is a forwarded connection.
type pair struct{ client, server net.Conn }

// New returns a Balancer without backends: it resets every connection.
func New(options Options) *Balancer {
	if options.Interval == 0 {
		options.Interval = 500 * time.Millisecond
	}
	if options.Timeout == 0 {
		options.Timeout = 2 * time.Second
	}
	if options.Patience == 0 {
		options.Patience = 5 * time.Second
	}
	if options.Changed == nil {
		options.Changed = func() {}
	}
	return &Balancer{options: options, backends: map[string]*backend{}}
}

// Serve accepts connections until the listener or the Balancer is closed. After any other error,
// such as too many open files, it waits a moment and continues: clusters have no other endpoint.
func (b *Balancer) Serve(listener net.Listener) {
	b.mu.Lock()
	b.listener = listener
	closed := b.closed
	b.mu.Unlock()
	if closed {
		_ = listener.Close()
		return
	}
	for {
		connection, err := listener.Accept()
		switch {
		case err == nil:
			go b.forward(connection)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			<-time.After(b.options.Interval)
		}
	}
}

// Set replaces the backends. Connections to those that are not among them any more are reset.
func (b *Balancer) Set(desired Backends) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(desired.CA) // without a CA no backend is ready
	b.mu.Lock()
	var lost []*pair
	for address, old := range b.backends {
		if !slices.Contains(desired.Addresses, address) {
			old.stop()
			lost = append(lost, old.takeOpen()...)
			delete(b.backends, address)
		}
	}
	b.order = slices.Clone(desired.Addresses)
	for _, address := range desired.Addresses {
		if known, ok := b.backends[address]; ok {
			known.roots = roots
			continue
		}
		if b.closed {
			continue
		}
		ctx, stop := context.WithCancel(context.Background())
		added := &backend{address: address, roots: roots, stop: stop, open: map[*pair]struct{}{}}
		b.backends[address] = added
		b.done.Go(func() { b.watch(ctx, added) })
	}
	b.mu.Unlock()
	resetAll(lost)
}

// Ready returns the addresses of the backends that are ready, sorted.
func (b *Balancer) Ready() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	result := []string{}
	for address, known := range b.backends {
		if known.health.ready {
			result = append(result, address)
		}
	}
	slices.Sort(result)
	return result
}

// Close stops listening and resets all connections.
func (b *Balancer) Close() {
	b.mu.Lock()
	b.closed = true
	listener := b.listener
	b.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
	b.Set(Backends{})
	b.done.Wait()
}

// watch asks a backend for its health until ctx ends.
func (b *Balancer) watch(ctx context.Context, known *backend) {
	ticker := time.NewTicker(b.options.Interval)
	defer ticker.Stop()
	for {
		b.mu.Lock()
		roots := known.roots
		b.mu.Unlock()
		p := b.ask(ctx, known.address, roots)
		if ctx.Err() != nil {
			return
		}
		b.record(known, p)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (b *Balancer) record(known *backend, p probe) {
	b.mu.Lock()
	before := known.health.ready
	next, lost := known.health.next(p, time.Now(), b.options.Patience)
	known.health = next
	var open []*pair
	// Nothing is gained by a reset if no other backend is ready: a slow answer is better than none.
	if lost && (p == unreachable || b.isAnyReady()) {
		open = known.takeOpen()
	}
	b.mu.Unlock()
	resetAll(open)
	if before != next.ready {
		b.options.Changed()
	}
}

// isAnyReady reports whether any backend is ready. The caller holds the lock.
func (b *Balancer) isAnyReady() bool {
	for _, known := range b.backends {
		if known.health.ready {
			return true
		}
	}
	return false
}

// ask makes one request for /readyz, on a connection of its own: one that is kept does not show that its end is gone.
func (b *Balancer) ask(ctx context.Context, address string, roots *x509.CertPool) probe {
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/readyz", nil)
	if err != nil {
		return unreachable
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return classify(err)
	}
	_ = response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return answeredReady
	}
	return answeredNotReady
}

// classify tells a backend that is gone from one that is slow, and from one whose certificate is not valid.
func classify(err error) probe {
	var invalid *tls.CertificateVerificationError
	switch {
	case errors.As(err, &invalid):
		return answeredNotReady
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return silent
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return unreachable
	}
	return silent
}

// forward connects a client with a backend, and copies until both have ended or the backend is lost.
func (b *Balancer) forward(client net.Conn) {
	b.mu.Lock()
	ready := map[string]bool{}
	for address, known := range b.backends {
		ready[address] = known.health.ready
	}
	candidates := order(b.order, ready, b.turn)
	b.turn++
	b.mu.Unlock()
	for _, address := range candidates {
		server, err := (&net.Dialer{Timeout: b.options.Timeout}).DialContext(context.Background(), "tcp", address)
		if err != nil {
			continue
		}
		forwarded := &pair{client, server}
		known := b.keep(address, forwarded)
		if known == nil {
			forwarded.reset()
			return
		}
		forwarded.copy()
		b.mu.Lock()
		delete(known.open, forwarded)
		b.mu.Unlock()
		return
	}
	reset(client)
}

// keep remembers a connection. It returns nil where the backend was lost meanwhile.
func (b *Balancer) keep(address string, forwarded *pair) *backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.backends[address]
	if !ok || !known.health.ready {
		return nil
	}
	known.open[forwarded] = struct{}{}
	return known
}

// takeOpen returns the connections, and forgets them. The caller holds the lock.
func (k *backend) takeOpen() []*pair {
	result := make([]*pair, 0, len(k.open))
	for forwarded := range k.open {
		result = append(result, forwarded)
	}
	clear(k.open)
	return result
}

// copy copies both ways. An end that closes its side is passed on; an error ends both.
func (p *pair) copy() {
	var both sync.WaitGroup
	both.Go(func() { p.pipe(p.server, p.client) })
	both.Go(func() { p.pipe(p.client, p.server) })
	both.Wait()
	_ = p.client.Close()
	_ = p.server.Close()
}

func (p *pair) pipe(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if tcp, ok := to.(*net.TCPConn); ok && err == nil {
		_ = tcp.CloseWrite()
		return
	}
	p.reset()
}

func (p *pair) reset() {
	reset(p.client)
	reset(p.server)
}

func resetAll(open []*pair) {
	for _, forwarded := range open {
		forwarded.reset()
	}
}

// reset ends a connection at once, so that its other end gets an error.
func reset(connection net.Conn) {
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}
