package updaterserver_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/updaterserver"
	"github.com/windlass-dev/windlass/internal/updaterserver/servertest"
)

// call returns the status of a request to a server, with an own connection; 0 where it was refused.
func call(t *testing.T, server servertest.Running, config *tls.Config) int {
	t.Helper()
	config.RootCAs = x509.NewCertPool()
	config.RootCAs.AppendCertsFromPEM(server.CA)
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// TestTLSVersions: who speaks TLS 1.2 at most is refused.
func TestTLSVersions(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, &canned{})
	for version, want := range map[uint16]int{tls.VersionTLS12: 0, tls.VersionTLS13: http.StatusNotFound} {
		config := &tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: version}
		if got := call(t, server, config); got != want {
			t.Errorf("%s: the status is %d, want %d", tls.VersionName(version), got, want)
		}
	}
}

// TestClientCA: callers need a certificate of the client CA, and a new CA counts without a restart.
func TestClientCA(t *testing.T) {
	t.Parallel()
	before, beforePEM := caller(t)
	after, afterPEM := caller(t)
	var file string
	trust := func(ca []byte) {
		t.Helper()
		if err := os.WriteFile(file, ca, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := servertest.Start(t, &canned{}, func(o *updaterserver.Options) {
		o.ClientCAName = "callers.crt"
		file = filepath.Join(o.CertDir, o.ClientCAName)
		trust(beforePEM)
	})
	check := func(step string, wants ...int) {
		t.Helper()
		for i, certificates := range [][]tls.Certificate{nil, {before}, {after}} {
			config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: certificates}
			if got := call(t, server, config); got != wants[i] {
				t.Errorf("%s, caller %d: the status is %d, want %d", step, i, got, wants[i])
			}
		}
	}
	check("the first CA", 0, http.StatusNotFound, 0)
	trust(afterPEM)
	check("the second CA", 0, 0, http.StatusNotFound)
}

// caller is a client certificate that is its own CA.
func caller(t *testing.T) (pair tls.Certificate, ca []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	pair = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
	return pair, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
