package hookclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"strconv"
	"time"

	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// connection is how the extension of one ExtensionConfig is reached. It is immutable and safe for concurrent use; its TCP
// connections are kept for further calls.
type connection struct {
	// config is what it was made from.
	config runtimev1.ClientConfig
	// base is the URL below which the hooks are.
	base *url.URL
	http *http.Client
}

// newConnection makes a connection to what an ExtensionConfig points at; local, unless nil, answers in its place. certificate may be nil.
// Errors are *MisconfiguredError.
func newConnection(name string, config runtimev1.ClientConfig, certificate clientCertificate, local http.RoundTripper) (*connection, error) {
	conn := &connection{config: *config.DeepCopy(), http: &http.Client{
		Transport: local,
		// A redirect could lead the request to where nobody registered an extension.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if local != nil {
		conn.base = &url.URL{Scheme: "https", Host: "in-process"}
		return conn, nil
	}
	var err error
	if conn.base, err = computeBase(config); err != nil {
		return nil, &MisconfiguredError{
			ExtensionConfig: name, Field: "spec.clientConfig", Detail: err.Error(), Remedy: "name a Service, or a URL as https://host:port/path",
		}
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12, GetClientCertificate: certificate}
	if len(config.CABundle) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(config.CABundle) {
			return nil, &MisconfiguredError{
				ExtensionConfig: name, Field: "spec.clientConfig.caBundle", Detail: "holds no certificate",
				Remedy: "put at least one in it, in PEM, or leave it out where the system's CAs are meant",
			}
		}
	}
	conn.http.Transport = &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSClientConfig:     trust,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     90 * time.Second,
		// A connection whose other end vanished is noticed, instead of failing every request until the system gives it up.
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
		MaxResponseHeaderBytes: 64 << 10,
	}
	return conn, nil
}

// clientCertificate returns the certificate to show to extensions that ask for one.
type clientCertificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)

// madeFrom reports whether a ClientConfig is the one that the connection was made from.
func (c *connection) madeFrom(config runtimev1.ClientConfig) bool {
	return reflect.DeepEqual(c.config, config)
}

// closeIdle makes further calls connect anew. Calls under way are not disturbed.
func (c *connection) closeIdle() { c.http.CloseIdleConnections() }

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
