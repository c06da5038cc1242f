package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"time"
)

const (
	// A plane lives for hours; a year is beyond any doubt and still an end.
	validity = 365 * 24 * time.Hour
	// Certificates are valid from a little before now, for clocks that are set back while the plane runs.
	backdate = time.Minute
)

// CA signs serving and client certificates. It is safe for concurrent use.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// Pair is a certificate with its key, both PEM.
type Pair struct {
	Cert, Key []byte
}

// NewCA makes a CA that is valid from now on.
func NewCA(now time.Time) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the CA key: %w", err)
	}
	template, err := template("windlass-dev-ca", now)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the CA certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing the CA certificate: %w", err)
	}
	return &CA{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// PEM is the CA's certificate.
func (ca *CA) PEM() []byte { return slices.Clone(ca.pem) }

// Serving makes a certificate that is good for serving under names, which may be DNS names and IP addresses.
func (ca *CA) Serving(now time.Time, names ...string) (Pair, error) {
	template, err := template("windlass-dev-serving", now)
	if err != nil {
		return Pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if addr, err := netip.ParseAddr(name); err == nil {
			template.IPAddresses = append(template.IPAddresses, net.IP(addr.AsSlice()))
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return ca.sign(template)
}

// Client makes a certificate that authenticates user, a member of groups.
func (ca *CA) Client(now time.Time, user string, groups ...string) (Pair, error) {
	template, err := template(user, now)
	if err != nil {
		return Pair{}, err
	}
	template.Subject.Organization = slices.Clone(groups)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return ca.sign(template)
}

// NewKey makes a private key (PEM) for signing service account tokens.
func NewKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	return encodeKey(key)
}

func (ca *CA) sign(template *x509.Certificate) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generating the key of %s: %w", template.Subject.CommonName, err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: encode("CERTIFICATE", der), Key: keyPEM}, nil
}

func template(commonName string, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(validity),
	}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	// The SEC 1 form: kube-apiserver reads service account keys in it, and crypto/tls takes it as well.
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return encode("EC PRIVATE KEY", der), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
