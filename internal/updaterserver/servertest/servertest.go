package servertest

import (
	"context"
	"net"
	"strconv"
	"testing" //nolint:depguard // It is imported by tests only.
	"time"

	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/updaterserver"
	"github.com/windlass-dev/windlass/test/loopback" //nolint:depguard // Tests alone import this package.
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
	number := loopback.FreePort(t)
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
	loopback.Eventually(t, "the server is ready", func() bool {
		select {
		case err := <-done:
			done <- nil
			t.Fatalf("the server ended at once: %v", err)
		default:
		}
		return server.Ready(nil) == nil
	})
	return Running{Server: server, URL: "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(number)), CA: ca}
}

// WriteCertificate writes a serving certificate for 127.0.0.1 and its key into a folder, and returns the certificate of the
// CA that signed it, in PEM.
func WriteCertificate(t *testing.T, dir string) (ca []byte) {
	t.Helper()
	authority := loopback.NewAuthority(t, "test CA")
	authority.Issue(t, "updater", time.Now().Add(time.Hour)).WriteTo(t, dir)
	return authority.PEM
}
