package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"
)

func TestCertificates(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	ca, err := NewCA(now)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca.PEM()) {
		t.Fatal("the CA's PEM has no certificate")
	}
	serving, err := ca.Serving(now, "127.0.0.1", "localhost", "fd00::1")
	if err != nil {
		t.Fatal(err)
	}
	client, err := ca.Client(now, "alice", "masters")
	if err != nil {
		t.Fatal(err)
	}
	verify := func(pair Pair, name string, usage x509.ExtKeyUsage, at time.Time) error {
		_, err := leaf(t, pair).Verify(x509.VerifyOptions{DNSName: name, Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: at})
		return err
	}
	for _, name := range []string{"127.0.0.1", "localhost", "fd00::1"} {
		if err := verify(serving, name, x509.ExtKeyUsageServerAuth, now); err != nil {
			t.Errorf("serving as %s: %v", name, err)
		}
	}
	if err := verify(client, "", x509.ExtKeyUsageClientAuth, now); err != nil {
		t.Errorf("client: %v", err)
	}
	if got := leaf(t, client).Subject; got.CommonName != "alice" || len(got.Organization) != 1 || got.Organization[0] != "masters" {
		t.Errorf("client's subject is %v", got)
	}
	for name, err := range map[string]error{
		"another name":                    verify(serving, "example.com", x509.ExtKeyUsageServerAuth, now),
		"serving certificate as client's": verify(serving, "", x509.ExtKeyUsageClientAuth, now),
		"client's certificate as serving": verify(client, "", x509.ExtKeyUsageServerAuth, now),
		"after its end":                   verify(serving, "localhost", x509.ExtKeyUsageServerAuth, now.Add(validity+time.Second)),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func leaf(t *testing.T, pair Pair) *x509.Certificate {
	t.Helper()
	keyPair, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(keyPair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestNewKey(t *testing.T) {
	t.Parallel()
	data, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode(data)
	if block == nil || len(rest) > 0 {
		t.Fatalf("not one PEM block: %d bytes left over", len(rest))
	}
	if _, err := x509.ParseECPrivateKey(block.Bytes); err != nil {
		t.Error(err)
	}
}
