package k8sd

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// trust says whom to take for k8sd: one of pool, pins, secretName and anybody is set.
type trust struct {
	pool       *x509.CertPool
	pins       []pin
	secretName string
	anybody    bool
	// serverName is the name that a certificate of pool must be for; empty means the host that is connected to.
	serverName string
}

// pin is the SHA-256 of a certificate.
type pin [sha256.Size]byte

// String gives it as openssl prints it.
func (p pin) String() string {
	return strings.ReplaceAll(fmt.Sprintf("% X", p[:]), " ", ":")
}

// The keys of the Secret that tells whom to trust.
const (
	caKey          = "ca.crt"
	fingerprintKey = "fingerprint"
	// clusterVariable stands for the name of the Machine's Cluster in the Secret's name.
	clusterVariable = "{cluster}"
)

var errNobodyTrusted = errors.New("set exactly one of caBundle, fingerprints, secretName and insecureSkipVerify: true")

func newTrust(c v1alpha1.K8sdTLS) (trust, error) {
	set := 0
	for _, is := range []bool{len(c.CABundle) > 0, len(c.Fingerprints) > 0, c.SecretName != "", c.InsecureSkipVerify} {
		if is {
			set++
		}
	}
	if set != 1 {
		return trust{}, errNobodyTrusted
	}
	t := trust{secretName: c.SecretName, anybody: c.InsecureSkipVerify, serverName: c.ServerName}
	var err error
	if len(c.CABundle) > 0 {
		if t.pool, err = parsePool(c.CABundle); err != nil {
			return trust{}, fmt.Errorf("caBundle: %w", err)
		}
	}
	if t.pins, err = parsePins(c.Fingerprints); err != nil {
		return trust{}, fmt.Errorf("fingerprints: %w", err)
	}
	return t, nil
}

func parsePool(pem []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("it holds no certificate in PEM that can be read")
	}
	return pool, nil
}

func parsePins(fingerprints []string) ([]pin, error) {
	var pins []pin
	for i, written := range fingerprints {
		raw, err := hex.DecodeString(strings.ReplaceAll(written, ":", ""))
		if err != nil || len(raw) != sha256.Size {
			return nil, fmt.Errorf("number %d is no SHA-256 fingerprint: it must be 64 hexadecimal digits, with or without colons", i+1)
		}
		pins = append(pins, pin(raw))
	}
	return pins, nil
}

// resolveTrust reads the Secret that tells whom to trust, where it is one that does.
func (u *Updater) resolveTrust(ctx context.Context, m Machine) (trust, error) {
	t := u.trust
	if t.secretName == "" {
		return t, nil
	}
	name := types.NamespacedName{Namespace: m.Name.Namespace, Name: strings.ReplaceAll(t.secretName, clusterVariable, m.Cluster)}
	data, err := u.readSecret(ctx, name, "whom to trust as k8sd")
	if err != nil {
		return trust{}, err
	}
	ca, fingerprints := data[caKey], strings.Fields(string(data[fingerprintKey]))
	switch {
	case len(ca) > 0 && len(fingerprints) == 0:
		t.pool, err = parsePool(ca)
	case len(ca) == 0 && len(fingerprints) > 0:
		t.pins, err = parsePins(fingerprints)
	default:
		return trust{}, setup("the Secret %s must hold either %s or %s", name, caKey, fingerprintKey)
	}
	if err != nil {
		return trust{}, setup("the Secret %s: %w", name, err)
	}
	return t, nil
}

// readSecret reads a Secret that is there for a purpose.
func (u *Updater) readSecret(ctx context.Context, name types.NamespacedName, purpose string) (map[string][]byte, error) {
	data, err := u.options.Secret(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, setup("there is no Secret %s, which tells %s", name, purpose)
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return data, nil
}

// config is the TLS configuration to connect to a host with.
func (t trust) config(host string) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, RootCAs: t.pool}
	if t.serverName != "" {
		c.ServerName = t.serverName
	}
	if t.anybody || len(t.pins) > 0 {
		// Certificates are compared as they are, or not at all where the spec says so by a field that is called unsafe.
		c.InsecureSkipVerify = true
	}
	if len(t.pins) > 0 {
		c.VerifyConnection = t.verify
	}
	return c
}

func (t trust) verify(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("k8sd shows no certificate")
	}
	if shown := pin(sha256.Sum256(state.PeerCertificates[0].Raw)); !slices.Contains(t.pins, shown) {
		return fmt.Errorf("its certificate has the SHA-256 fingerprint %s, which is not among those that are trusted", shown)
	}
	return nil
}
