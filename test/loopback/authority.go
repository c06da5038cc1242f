// Package loopback has what tests of servers on this machine share: certificates, free ports and
// waiting.
package loopback

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a certificate authority of a test.
type Authority struct {
	// PEM is its certificate.
	PEM []byte

	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Identity is a certificate and its key, in PEM.
type Identity struct{ Certificate, Key []byte }

// NewAuthority returns an authority that nobody knows yet.
func NewAuthority(t *testing.T, name string) *Authority {
	t.Helper()
	template := certificate(name, time.Now().Add(time.Hour))
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	key := newKey(t)
	der := sign(t, template, template, key, key)
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{PEM: encode("CERTIFICATE", der), certificate: parsed, key: key}
}

// Issue returns a certificate for serving on 127.0.0.1 and for a client named name. It is valid from an hour ago until expires.
// Edits change the template.
func (a *Authority) Issue(t *testing.T, name string, expires time.Time, edits ...func(*x509.Certificate)) Identity {
	t.Helper()
	template, key := certificate(name, expires), newKey(t)
	template.IPAddresses, template.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, edit := range edits {
		edit(template)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	der := sign(t, template, a.certificate, key, a.key)
	return Identity{Certificate: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", private)}
}

// Server returns a TLS configuration that serves 127.0.0.1.
func (a *Authority) Server(t *testing.T) *tls.Config {
	t.Helper()
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.Issue(t, "server", time.Now().Add(time.Hour)).Pair(t)}}
}

// Pool returns a pool that holds this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// WriteTo writes tls.key and tls.crt into a folder. The key comes first: until the certificate
// follows, the pair does not match, and a server keeps the old one.
func (i Identity) WriteTo(t *testing.T, dir string) {
	t.Helper()
	for _, file := range []struct {
		name    string
		content []byte
	}{{"tls.key", i.Key}, {"tls.crt", i.Certificate}} {
		if err := os.WriteFile(filepath.Join(dir, file.name), file.content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Pair returns the certificate and its key as TLS takes them.
func (i Identity) Pair(t *testing.T) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(i.Certificate, i.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func certificate(name string, expires time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: expires,
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
