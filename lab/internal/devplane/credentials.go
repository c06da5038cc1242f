package devplane

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/windlass-dev/windlass/lab/internal/devplane/internal/pki"
)

// File names in a certificate directory; the managers expect the first two.
const (
	certFile           = "tls.crt"
	keyFile            = "tls.key"
	serviceAccountFile = "service-account.key"
)

// mastersGroup has all rights from the start, before there are roles.
const mastersGroup = "system:masters"

// credentials makes what the parts of a plane authenticate with. Keys are readable by the user only; the CA's is not on disk.
type credentials struct {
	ca     *pki.CA
	layout layout
	// names are in every serving certificate.
	names []string
	// server is the API server's URL inside.
	server string
}

func newCredentials(l layout, config Config, server string) (*credentials, error) {
	ca, err := pki.NewCA(time.Now())
	if err != nil {
		return nil, err
	}
	c := &credentials{ca: ca, layout: l, names: computeNames(config), server: server}
	if err := os.MkdirAll(l.certs(), 0o700); err != nil {
		return nil, fmt.Errorf("making the certificate directory: %w", err)
	}
	return c, writeFile(l.ca(), ca.PEM())
}

// serving writes a serving certificate and returns its directory.
func (c *credentials) serving(name string) (string, error) {
	pair, err := c.ca.Serving(time.Now(), c.names...)
	if err != nil {
		return "", err
	}
	dir := c.layout.certDir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the certificate directory of %s: %w", name, err)
	}
	return dir, errors.Join(writeFile(filepath.Join(dir, certFile), pair.Cert), writeFile(filepath.Join(dir, keyFile), pair.Key))
}

// client writes a kubeconfig with a client certificate for user.
func (c *credentials) client(path, server, user string) error {
	pair, err := c.ca.Client(time.Now(), user, mastersGroup)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the directory of a kubeconfig: %w", err)
	}
	data, err := clientcmd.Write(kubeconfig(server, user, c.ca.PEM(), clientcmdapi.AuthInfo{
		ClientCertificateData: pair.Cert, ClientKeyData: pair.Key,
	}))
	if err != nil {
		return fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return writeFile(path, data)
}

func (c *credentials) serviceAccountKey() error {
	key, err := pki.NewKey()
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(c.layout.certDir(APIServer), serviceAccountFile), key)
}

// tlsConfig verifies the plane's serving certificates, and authenticates with full rights where a server asks.
func (c *credentials) tlsConfig() (*tls.Config, error) {
	pair, err := c.ca.Client(time.Now(), "windlass-dev-supervisor", mastersGroup)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("loading the supervisor's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(c.ca.PEM()) {
		return nil, errors.New("loading the plane's CA: no certificate found")
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, Certificates: []tls.Certificate{cert}}, nil
}

func kubeconfig(server, user string, ca []byte, login clientcmdapi.AuthInfo) clientcmdapi.Config {
	const name = "windlass-dev"
	return clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: &login},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user}},
		CurrentContext: name,
	}
}
