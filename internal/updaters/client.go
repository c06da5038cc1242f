package updaters

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"time"

	"github.com/windlass-dev/windlass/internal/peer"
)

const (
	// DefaultTimeout is how long a request may take where Options say nothing: what Cluster API waits for an extension.
	DefaultTimeout = 10 * time.Second
	// MaxTimeout is the longest Timeout: what Cluster API allows a handler.
	MaxTimeout = 30 * time.Second
	// MaxResponseBytes bounds an answer. Patches of a machine's three objects are far smaller: an object in etcd has at most
	// 1.5 MiB.
	MaxResponseBytes = 2 << 20
)

// ClientOptions say how an updater is reached.
type ClientOptions struct {
	// Name is the updater's name, for errors.
	Name string
	// URL is the updater's base: https, without credentials, query and fragment.
	URL string
	// CABundle holds the certificates, in PEM, one of which must have signed the updater's; empty means the system's.
	CABundle []byte
	// ServerName is the name that the updater's certificate must be for; empty means the URL's host.
	ServerName string
	// Timeout is how long one request may take; zero means DefaultTimeout, more than MaxTimeout is refused.
	Timeout time.Duration
	// Dial opens connections; nil means the network, through the proxy that the environment names.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client sends requests to one updater. It is safe for concurrent use.
type Client struct {
	name    string
	base    *url.URL
	timeout time.Duration
	http    *http.Client
}

// NewClient returns a Client. It does not connect yet.
func NewClient(o ClientOptions) (*Client, error) {
	base, err := parseBase(o.URL)
	if err != nil {
		return nil, fmt.Errorf("updater %s: %w", o.Name, err)
	}
	if o.Timeout < 0 || o.Timeout > MaxTimeout {
		return nil, fmt.Errorf("updater %s: the timeout %s is not between 0 and %s", o.Name, o.Timeout, MaxTimeout)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	trust, err := tlsConfig(o)
	if err != nil {
		return nil, fmt.Errorf("updater %s: %w", o.Name, err)
	}
	connection := peer.Connection{TLS: trust, Dial: o.Dial, Timeout: o.Timeout}
	if o.Dial == nil {
		connection.Proxy = http.ProxyFromEnvironment
	}
	limits := peer.Limits{Timeout: o.Timeout, BodyBytes: MaxResponseBytes}
	return &Client{name: o.Name, base: base, timeout: o.Timeout, http: peer.NewClient(peer.NewTransport(connection), limits)}, nil
}

func parseBase(raw string) (*url.URL, error) {
	base, err := url.Parse(raw)
	if err != nil {
		// The error quotes the URL, which may hold a password.
		return nil, errors.New("the URL is malformed; write it as https://host:port/path")
	}
	switch {
	case base.Scheme != "https":
		return nil, fmt.Errorf("the URL has the scheme %q; updaters are reached over https only", base.Scheme)
	case base.Hostname() == "":
		return nil, errors.New("the URL has no host; write it as https://host:port/path")
	case base.User != nil:
		return nil, errors.New("the URL holds credentials; leave them out, they would show wherever the URL is shown")
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return nil, errors.New("the URL has a query or a fragment; only a path can be prepended to the updater's paths")
	}
	return base, nil
}

func tlsConfig(o ClientOptions) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName}
	if len(o.CABundle) == 0 {
		return config, nil
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(o.CABundle) {
		return nil, errors.New("the CA bundle holds no certificate; it must hold at least one in PEM")
	}
	return config, nil
}

// Name returns the updater's name.
func (c *Client) Name() string { return c.name }

// Timeout returns how long one request may take.
func (c *Client) Timeout() time.Duration { return c.timeout }

// URL returns the URL of a path below the base.
func (c *Client) URL(below string) string { return c.at(below).String() }

func (c *Client) at(below string) *url.URL {
	u := *c.base
	if below == "" {
		return &u
	}
	u.Path, u.RawPath = path.Join("/", u.Path, below), ""
	return &u
}

// Post sends JSON to a path below the base and returns the body of the answer, whose status was 200. With bounded, the URL
// says how long the caller waits, as Cluster API does it. Errors are *Error.
func (c *Client) Post(ctx context.Context, below string, bounded bool, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	u := c.at(below)
	shown := u.String()
	if bounded {
		u.RawQuery = url.Values{"timeout": {c.timeout.String()}}.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &Error{Class: Unreachable, Updater: c.name, URL: shown, Problem: "the request cannot be made", Fix: "check the URL", Err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(ctx, shown, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, c.badStatus(shown, answer.StatusCode)
	}
	content, err := io.ReadAll(answer.Body)
	_, tooLong := errors.AsType[*peer.TooLongError](err)
	switch {
	case tooLong:
		return nil, c.Nonsense(below, fmt.Sprintf("the answer has more than %d bytes", MaxResponseBytes), "answer with patches, not with whole objects", nil)
	case err != nil:
		return nil, c.unreachable(ctx, shown, err)
	case len(bytes.TrimSpace(content)) == 0:
		return nil, c.Nonsense(below, "the answer is empty", "answer with the hook's response as JSON", nil)
	}
	return content, nil
}

// Nonsense returns an Error about the answer of a path below the base.
func (c *Client) Nonsense(below, problem, fix string, cause error) *Error {
	return &Error{Class: Nonsense, Updater: c.name, URL: c.URL(below), Problem: problem, Fix: fix, Err: cause}
}

// Refused returns an Error about a request that the updater refused, with its own words.
func (c *Client) Refused(below, message string) *Error {
	message = CleanMessage(message)
	if message == "" {
		message = "(it gave no reason)"
	}
	return &Error{Class: Refused, Updater: c.name, URL: c.URL(below), Problem: "it refused: " + message}
}

// badStatus says what an HTTP status means. The body is left out: it may quote the request.
func (c *Client) badStatus(shown string, status int) *Error {
	e := &Error{Class: Nonsense, Updater: c.name, URL: shown, Problem: fmt.Sprintf("it answered with the HTTP status %d %s", status, http.StatusText(status))}
	switch {
	case status >= 300 && status < 400:
		e.Fix = "redirects are not followed; register the URL that the updater is at"
	case status == http.StatusNotFound:
		e.Fix = "check the path of the URL and whether the updater serves this hook"
	case status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests || status == http.StatusBadGateway || status == http.StatusGatewayTimeout:
		e.Class, e.Fix = Unreachable, "look at the updater's log"
	default:
		e.Fix = "a hook that fails answers 200 with the status Failure; look at the updater's log"
	}
	return e
}

func (c *Client) unreachable(ctx context.Context, shown string, err error) *Error {
	// The method and URL that it quotes stand in the Error already.
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	e := &Error{Class: Unreachable, Updater: c.name, URL: shown, Problem: "it cannot be reached", Fix: "check that it runs and that its URL is right", Err: err}
	_, unknownCA := errors.AsType[x509.UnknownAuthorityError](err)
	_, wrongName := errors.AsType[x509.HostnameError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		// The timers of the context and of the client race, and each has its own words.
		e.Err = context.DeadlineExceeded
		e.Problem, e.Fix = fmt.Sprintf("it did not answer within %s", c.timeout), "an updater must answer at once and work afterwards"
	case unknownCA:
		e.Problem, e.Fix = "its certificate is not trusted", "set the CA bundle to the certificate of the CA that signed it"
	case wrongName:
		e.Problem, e.Fix = "its certificate is for another name", "issue one for the host of the URL"
	case invalid:
		e.Problem, e.Fix = "its certificate is not valid", "issue a new one"
	case errors.Is(err, http.ErrSchemeMismatch):
		e.Problem, e.Fix = "it does not speak TLS", "serve https there, or correct the port"
	}
	return e
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }
