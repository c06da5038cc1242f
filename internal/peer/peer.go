package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// DefaultTimeout is the Timeout of Limits that have none.
	DefaultTimeout = 10 * time.Second
	// DefaultBodyBytes is the BodyBytes of Limits that have none.
	DefaultBodyBytes = 1 << 20
	// HeaderBytes bounds the header of every answer.
	HeaderBytes = 64 << 10

	idleConnections = 8
	idleTimeout     = 90 * time.Second
	pingAfter       = 15 * time.Second
	pingTimeout     = 5 * time.Second
)

// Limits bound one exchange with a peer.
type Limits struct {
	// Timeout bounds each phase of a connection (dial, TLS handshake, header of the answer), and
	// the exchange as a whole. Zero means DefaultTimeout.
	Timeout time.Duration
	// BodyBytes bounds the body of an answer after decompression. Zero means DefaultBodyBytes.
	BodyBytes int64
}

func (l Limits) withDefaults() Limits {
	if l.Timeout <= 0 {
		l.Timeout = DefaultTimeout
	}
	if l.BodyBytes <= 0 {
		l.BodyBytes = DefaultBodyBytes
	}
	return l
}

// Connection says how a peer is connected to.
type Connection struct {
	// TLS says whom to trust; nil means the system's CAs. NewTransport does not change it.
	TLS *tls.Config
	// Dial opens TCP connections; nil means the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Established is a TLS connection that exists already. It serves one request.
	Established net.Conn
	// Proxy selects a proxy; nil means none.
	Proxy func(*http.Request) (*url.URL, error)
	// Timeout bounds each phase, as Limits do.
	Timeout time.Duration
}

// NewTransport returns a transport that bounds each phase of a connection and the header of an
// answer. An unfinished connection ends after Timeout even if the request that asked for it is
// over, so a peer that accepts and stays silent collects none.
func NewTransport(c Connection) *http.Transport {
	timeout := Limits{Timeout: c.Timeout}.withDefaults().Timeout
	trust := c.TLS
	if trust == nil {
		trust = &tls.Config{}
	}
	trust = trust.Clone()
	trust.MinVersion = max(trust.MinVersion, tls.VersionTLS12)
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: timeout}).DialContext
	}
	transport := &http.Transport{
		Proxy:                  c.Proxy,
		DialContext:            dial,
		TLSClientConfig:        trust,
		TLSHandshakeTimeout:    timeout,
		ResponseHeaderTimeout:  timeout,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    idleConnections,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: HeaderBytes,
		// Without pings, requests on a connection whose other end vanished fail until the system
		// closes it.
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	if len(trust.NextProtos) > 0 && !slices.Contains(trust.NextProtos, "h2") {
		// Upgrades to other protocols need HTTP/1.1.
		transport.ForceAttemptHTTP2, transport.HTTP2 = false, nil
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	if c.Established != nil {
		transport.DialTLSContext = func(context.Context, string, string) (net.Conn, error) { return c.Established, nil }
		transport.DisableKeepAlives, transport.ForceAttemptHTTP2, transport.HTTP2 = true, false, nil
	}
	return transport
}

// NewClient returns a client that bounds time and body and follows no redirect: it returns the
// redirect as the answer. A request that is not https fails with ErrPlain before anything is sent.
// next carries requests: a transport of NewTransport, wrapped or not, or one that answers in this
// process.
func NewClient(next http.RoundTripper, l Limits) *http.Client {
	l = l.withDefaults()
	return &http.Client{
		Transport:     &bounded{next: next, limit: l.BodyBytes},
		Timeout:       l.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// NewUpgradeClient is NewClient for requests whose connection becomes one of another protocol.
// Timeout bounds the phases until the answer's header; after that the connection lives until its
// user closes it.
func NewUpgradeClient(next http.RoundTripper, l Limits) *http.Client {
	client := NewClient(next, l)
	client.Timeout = 0
	return client
}

// Bound returns a copy of config for which every transport, whoever makes it, refuses redirects,
// plain HTTP and bodies beyond the limit. Libraries that open streams make their own transports,
// and some of them follow redirects with the credentials of config.
func Bound(config *rest.Config, l Limits) *rest.Config {
	l = l.withDefaults()
	config = rest.CopyConfig(config)
	config.Timeout = l.Timeout
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &bounded{next: next, limit: l.BodyBytes, refuseRedirects: true}
	})
	return config
}

// NewAPIServerTransport returns what carries requests to the API server of a config of Bound, with
// its credentials.
func NewAPIServerTransport(config *rest.Config, l Limits) (http.RoundTripper, error) {
	trust, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("the TLS configuration: %w", err)
	}
	transport := NewTransport(Connection{TLS: trust, Dial: config.Dial, Proxy: config.Proxy, Timeout: l.Timeout})
	// API servers compress large lists, and BodyBytes counts what decompression yields.
	transport.DisableCompression = false
	wrapped, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, fmt.Errorf("the credentials: %w", err)
	}
	return wrapped, nil
}

// ErrPlain is the error of a request that is not https.
var ErrPlain = errors.New("the URL is not https; peers are asked over TLS only")

// RedirectError is the error of an answer that sends the request elsewhere. It does not hold where.
type RedirectError struct{ StatusCode int }

// Error implements error.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("the answer is a redirect (HTTP status %d), and redirects are not followed", e.StatusCode)
}

// TooLongError is the error of reading a body beyond its limit.
type TooLongError struct {
	// Limit is the limit in bytes.
	Limit int64
}

// Error implements error.
func (e *TooLongError) Error() string {
	if e.Limit >= 1<<20 {
		return fmt.Sprintf("the answer has more than %d MiB", e.Limit>>20)
	}
	return fmt.Sprintf("the answer has more than %d bytes", e.Limit)
}

// bounded enforces what a transport cannot.
type bounded struct {
	next            http.RoundTripper
	limit           int64
	refuseRedirects bool
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, ErrPlain
	}
	response, err := b.next.RoundTrip(request)
	if err != nil || response.StatusCode == http.StatusSwitchingProtocols {
		return response, err
	}
	if code := response.StatusCode; b.refuseRedirects && code >= http.StatusMultipleChoices && code < http.StatusBadRequest {
		_ = response.Body.Close()
		return nil, &RedirectError{StatusCode: code}
	}
	response.Body = &body{ReadCloser: response.Body, left: b.limit, limit: b.limit}
	return response, nil
}

// CloseIdleConnections is what http.Client looks for.
func (b *bounded) CloseIdleConnections() {
	if closer, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// WrappedRoundTripper is what client-go looks for.
func (b *bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

// body fails once more than limit bytes have come.
type body struct {
	io.ReadCloser

	left, limit int64
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, &TooLongError{Limit: b.limit}
	}
	// One byte more than allowed tells a body of exactly limit bytes from a longer one.
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, &TooLongError{Limit: b.limit}
	}
	return n, err
}
