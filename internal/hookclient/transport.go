package hookclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"strconv"
	"sync"
	"time"

	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/windlass-dev/windlass/internal/peer"
)

// inProcess stands for the host of handlers in this process.
const inProcess = "in-process"

// connection is how the extension of one ExtensionConfig is reached. It is immutable and safe for concurrent use; its TCP
// connections are kept for further calls.
type connection struct {
	// config is what it was made from.
	config runtimev1.ClientConfig
	// local, unless nil, is called in place of an extension.
	local *local
	// base is the URL below which the hooks are.
	base *url.URL
	http *http.Client
}

// newConnection makes a connection to what an ExtensionConfig points at; local, unless nil, is called in its place. watcher has the client
// certificate; nil means that there is none. Errors are *MisconfiguredError.
func newConnection(name string, config runtimev1.ClientConfig, watcher *certwatcher.CertWatcher, local *local) (*connection, error) {
	conn := &connection{config: *config.DeepCopy(), local: local}
	if local != nil {
		conn.base = &url.URL{Host: inProcess}
		return conn, nil
	}
	limits := peer.Limits{Timeout: maxTimeout, BodyBytes: maxResponseBytes}
	var err error
	if conn.base, err = computeBase(config); err != nil {
		return nil, &MisconfiguredError{
			ExtensionConfig: name, Field: "spec.clientConfig", Detail: err.Error(), Remedy: "name a Service, or a URL as https://host:port/path",
		}
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if watcher != nil {
		trust.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return watcher.GetCertificate(nil) }
	}
	if len(config.CABundle) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(config.CABundle) {
			return nil, &MisconfiguredError{
				ExtensionConfig: name, Field: "spec.clientConfig.caBundle", Detail: "holds no certificate",
				Remedy: "put at least one in it, in PEM, or leave it out where the system's CAs are meant",
			}
		}
	}
	transport := peer.NewTransport(peer.Connection{TLS: trust, Proxy: http.ProxyFromEnvironment, Timeout: maxTimeout})
	if watcher != nil {
		conn.http = peer.NewClient(&renewing{watcher: watcher, transport: transport}, limits)
	} else {
		conn.http = peer.NewClient(transport, limits)
	}
	return conn, nil
}

// renewing makes new connections once the client certificate has changed. Those that there are cannot show another one; they are not
// used again, and calls under way on them are not disturbed. It is safe for concurrent use.
type renewing struct {
	watcher *certwatcher.CertWatcher

	mu        sync.Mutex
	shown     *tls.Certificate
	transport *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (r *renewing) RoundTrip(request *http.Request) (*http.Response, error) {
	transport, err := r.current()
	if err != nil {
		return nil, err
	}
	return transport.RoundTrip(request)
}

// CloseIdleConnections is what http.Client looks for.
func (r *renewing) CloseIdleConnections() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.transport.CloseIdleConnections()
}

func (r *renewing) current() (*http.Transport, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The watcher returns the same one until it has read another.
	certificate, err := r.watcher.GetCertificate(nil)
	if err != nil {
		return nil, fmt.Errorf("taking the client certificate: %w", err)
	}
	if r.shown != nil && r.shown != certificate {
		r.transport.CloseIdleConnections()
		r.transport = r.transport.Clone()
	}
	r.shown = certificate
	return r.transport, nil
}

// madeFrom reports whether a ClientConfig is the one that the connection was made from.
func (c *connection) madeFrom(config runtimev1.ClientConfig) bool {
	return reflect.DeepEqual(c.config, config)
}

// closeIdle makes further calls connect anew. Calls under way are not disturbed.
func (c *connection) closeIdle() {
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

// url returns where a handler is called that may take so long. Cluster API tells the extension how long it waits.
func (c *connection) url(hook runtimecatalog.GroupVersionHook, handler string, timeout time.Duration) string {
	u := *c.base
	u.Path, u.RawPath = path.Join("/", u.Path, runtimecatalog.GVHToPath(hook, handler)), ""
	u.RawQuery = url.Values{"timeout": {timeout.String()}}.Encode()
	return u.String()
}

// computeBase returns the URL that a ClientConfig means. The field's description says what a URL must not hold. Errors do not quote it.
func computeBase(config runtimev1.ClientConfig) (*url.URL, error) {
	if service := config.Service; service.IsDefined() {
		host := service.Name + "." + service.Namespace + ".svc"
		if service.Port != nil {
			host = net.JoinHostPort(host, strconv.Itoa(int(*service.Port)))
		}
		return &url.URL{Scheme: "https", Host: host, Path: service.Path}, nil
	}
	if config.URL == "" {
		return nil, errors.New("has neither url nor service")
	}
	base, err := url.Parse(config.URL)
	switch {
	case err != nil:
		return nil, errors.New("has a malformed url")
	case base.Scheme != "https":
		return nil, errors.New("has a url whose scheme is not https")
	case base.Hostname() == "":
		return nil, errors.New("has a url without a host")
	case base.User != nil:
		return nil, errors.New("has a url with credentials")
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return nil, errors.New("has a url with a query or a fragment")
	}
	return base, nil
}
