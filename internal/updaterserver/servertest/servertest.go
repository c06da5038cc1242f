package servertest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing" //nolint:depguard // It is imported by tests only.
	"time"

	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/updaterserver"
)

// Running is a server that runs until the test ends.
type Running struct {
	Server *updaterserver.Server
	// URL is where it is, and CA the certificate, in PEM, that signed its own.
	URL string
	CA  []byte
}

// Start serves an updater on loopback. Edits change how.
func Start(t *testing.T, updater port.Updater, edits ...func(*updaterserver.Options)) Running {
	t.Helper()
	dir := t.TempDir()
	ca := WriteCertificate(t, dir)
	number := FreePort(t)
	options := updaterserver.Options{
		Endpoint: hookserver.Endpoint{BindAddress: "127.0.0.1", Port: number, CertDir: dir}, Updater: updater,
	}
	for _, edit := range edits {
		edit(&options)
	}
	server, err := updaterserver.New(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	await(t, server, done)
	return Running{Server: server, URL: "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(number)), CA: ca}
}

// await waits for something that the server does by itself soon and tells nobody about.
func await(t *testing.T, server *updaterserver.Server, done chan error) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(30 * time.Second)
	for server.Ready(nil) != nil {
		select {
		case <-ticker.C:
		case err := <-done:
			done <- nil
			t.Fatalf("the server ended at once: %v", err)
		case <-deadline:
			t.Fatal("the server was not ready for 30 s")
		}
	}
}

// FreePort returns a port of loopback that nobody listens on.
func FreePort(t *testing.T) int {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("the address is a %T", listener.Addr())
	}
	return address.Port
}

// WriteCertificate writes a serving certificate for 127.0.0.1 and its key into a folder, and returns the certificate of the
// CA that signed it, in PEM.
func WriteCertificate(t *testing.T, dir string) (ca []byte) {
	t.Helper()
	caTemplate, caKey := certificate(1), newKey(t)
	caTemplate.IsCA, caTemplate.BasicConstraintsValid, caTemplate.KeyUsage = true, true, x509.KeyUsageCertSign
	caDER := sign(t, caTemplate, caTemplate, caKey, caKey)
	template, key := certificate(2), newKey(t)
	template.IPAddresses, template.KeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		hookserver.CertName: {Type: "CERTIFICATE", Bytes: sign(t, template, caTemplate, key, caKey)},
		hookserver.KeyName:  {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
}

func certificate(serial int64) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test " + strconv.FormatInt(serial, 10)},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
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
