package hookserver

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// ClientCA decides which client certificates count: those that a CA in a file has signed, that are valid now, and that
// are for client authentication. It reads the file for every decision, so that a new file counts at once and needs no
// watch that could fail. While the file is unreadable or holds no certificate, no client certificate counts.
//
// A ClientCA is safe for concurrent use.
type ClientCA struct {
	file string

	mu sync.Mutex
	// content is what pool was parsed from.
	content []byte
	pool    *x509.CertPool
	// failed is the last error of current, nil after a success. It limits the log to changes.
	failed error
}

// ReadClientCA returns the ClientCA of a file with PEM certificates. It returns an error if the file has none now.
func ReadClientCA(file string) (*ClientCA, error) {
	c := &ClientCA{file: file}
	if _, err := c.current(); err != nil {
		return nil, err
	}
	return c, nil
}

// current returns the CAs that the file holds now.
func (c *ClientCA) current() (*x509.CertPool, error) {
	content, err := os.ReadFile(c.file)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && (c.pool == nil || !bytes.Equal(content, c.content)) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(content) {
			err = fmt.Errorf("%s holds no certificate; it must hold at least one in PEM", c.file)
		} else {
			c.content, c.pool = content, pool
		}
	}
	if err != nil {
		err = fmt.Errorf("reading the client CA: %w", err)
	}
	c.report(err)
	if err != nil {
		return nil, err
	}
	return c.pool, nil
}

// report logs that the file became unusable, or usable again. The caller holds mu.
func (c *ClientCA) report(err error) {
	switch {
	case err != nil && c.failed == nil && c.pool != nil:
		log.Log.Error(err, "Refusing all callers until the client CA can be read", "file", c.file)
	case err == nil && c.failed != nil:
		log.Log.Info("The client CA can be read again", "file", c.file)
	}
	c.failed = err
}

// require makes a TLS server require a client certificate of the CAs that the file holds when a connection is made.
func (c *ClientCA) require(config *tls.Config) {
	config.ClientAuth = tls.RequireAndVerifyClientCert
	// A resumed session would skip the verification of the certificate.
	config.SessionTicketsDisabled = true
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool, err := c.current()
		if err != nil {
			return nil, err
		}
		now := config.Clone()
		now.ClientCAs = pool
		return now, nil
	}
}

// wrap verifies the caller's certificate before each request: a connection can outlive the certificate that it was made
// with, and the CA of that. It refuses with 403 and ends the connection, so that the caller can present another one.
func (c *ClientCA) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.verify(r.TLS); err != nil {
			w.Header().Set("Connection", "close")
			http.Error(w, "the client certificate is no longer valid: connect again with a valid one", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// verify returns an error unless the caller's certificate counts now.
func (c *ClientCA) verify(state *tls.ConnectionState) error {
	if state == nil || len(state.PeerCertificates) == 0 {
		return errors.New("the caller has presented no certificate")
	}
	pool, err := c.current()
	if err != nil {
		return err
	}
	intermediates := x509.NewCertPool()
	for _, certificate := range state.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	_, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: pool, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return fmt.Errorf("verifying the client certificate: %w", err)
	}
	return nil
}
