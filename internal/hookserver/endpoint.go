package hookserver

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/windlass-dev/windlass/internal/httplimit"
)

// serverName names the servers of hooks and of the guard in the log.
const serverName = "hooks and webhooks"

// Endpoint is where a TLS server listens, and which callers it serves.
type Endpoint struct {
	// BindAddress is the address to listen on; empty means all.
	BindAddress string
	// Port is the TCP port to listen on, from 1 to 65535.
	Port int
	// CertDir holds the serving certificate, CertName and KeyName. The server reads the files again when they change.
	CertDir string
	// ClientCAName is a file in CertDir with the CAs of callers' certificates. The server reads the file for each
	// connection and request, so that a change counts at once. Empty: callers need no certificate.
	ClientCAName string
}

// NewTLSServer returns a server for e that only speaks TLS 1.3, and that bounds the memory and time
// of all its requests together. It returns an error if the port or the client CA is invalid.
// Register wraps every handler: register handlers through the returned server only.
func NewTLSServer(e Endpoint) (webhook.Server, error) {
	if e.Port < 1 || e.Port > 65535 {
		return nil, fmt.Errorf("port %d is not between 1 and 65535", e.Port)
	}
	options := webhook.Options{
		Host: e.BindAddress, Port: e.Port, CertDir: e.CertDir, CertName: CertName, KeyName: KeyName,
		TLSOpts: []func(*tls.Config){RequireTLS13},
	}
	wrap := NewIntake()
	if e.ClientCAName == "" {
		return httplimit.NewTLSServer(serverName, options, httplimit.ForCalls, wrap), nil
	}
	ca, err := ReadClientCA(filepath.Join(e.CertDir, e.ClientCAName))
	if err != nil {
		return nil, err
	}
	options.TLSOpts = append(options.TLSOpts, ca.require)
	log.Log.Info("Callers need a client certificate", "port", e.Port, "clientCA", ca.file)
	// Who may not call takes no memory.
	authenticated := func(next http.Handler) http.Handler { return ca.wrap(wrap(next)) }
	return httplimit.NewTLSServer(serverName, options, httplimit.ForCalls, authenticated), nil
}

// wrapping is a webhook.Server that wraps its handlers.
type wrapping struct {
	webhook.Server
	wrap func(http.Handler) http.Handler
}

// Register implements webhook.Server.
func (s *wrapping) Register(path string, handler http.Handler) {
	s.Server.Register(path, s.wrap(handler))
}
