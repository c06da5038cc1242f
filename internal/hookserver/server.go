// Package hookserver serves the runtime hooks of Cluster API. Each hook is a function in three parts: decode the request
// into values, ask the core, encode the answer. A request that cannot be answered gets a response with the status
// Failure, whose message Cluster API shows in the Cluster's TopologyReconciled condition.
package hookserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync/atomic"

	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
)

// The files of the serving certificate in Options.CertDir, named as in a Secret of type kubernetes.io/tls.
const (
	CertName = "tls.crt"
	KeyName  = "tls.key"
)

// timeoutSeconds is how long Cluster API waits for an answer. Answers take milliseconds; it is upstream's default, said
// explicitly so that it shows in the ExtensionConfig.
const timeoutSeconds int32 = runtimehooksv1.DefaultHandlersTimeoutSeconds

// Options configure a Server.
type Options struct {
	// BindAddress is the address to listen on; empty means all.
	BindAddress string
	// Port is the TCP port to listen on, from 1 to 65535.
	Port int
	// CertDir holds CertName and KeyName. The files are read again when they change.
	CertDir string
	// ClientCAName is a file in CertDir with the certificates that must have signed the caller's; empty means that callers
	// need no certificate.
	ClientCAName string
	// Graphs is where the plan hook finds UpgradeGraphs.
	Graphs Graphs
}

// Server serves Discovery and the hooks over TLS. It is a manager.Runnable that runs on every replica.
type Server struct {
	inner *server.Server
	// reached is set once the server has answered itself. From then on it serves until the process ends.
	reached atomic.Bool
}

// New returns a Server that is ready to be started.
func New(o Options) (*Server, error) {
	if o.Port < 1 || o.Port > 65535 {
		return nil, fmt.Errorf("port %d is not between 1 and 65535", o.Port)
	}
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		return nil, fmt.Errorf("building the catalog of hooks: %w", err)
	}
	inner, err := server.New(server.Options{
		Catalog: catalog, Host: o.BindAddress, Port: o.Port,
		CertDir: o.CertDir, CertName: CertName, KeyName: KeyName, ClientCAName: o.ClientCAName,
		TLSOpts: []func(*tls.Config){RequireTLS13},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the hook server: %w", err)
	}
	failurePolicy, timeout := runtimehooksv1.FailurePolicyFail, timeoutSeconds
	err = inner.AddExtensionHandler(server.ExtensionHandler{
		Hook: runtimehooksv1.GenerateUpgradePlan, Name: GenerateUpgradePlanHandler,
		HandlerFunc:    NewUpgradePlanner(o.Graphs).GenerateUpgradePlan,
		TimeoutSeconds: &timeout,
		// Ignore would turn an unreachable extension into an empty plan.
		FailurePolicy: &failurePolicy,
	})
	if err != nil {
		return nil, fmt.Errorf("adding the handler %s: %w", GenerateUpgradePlanHandler, err)
	}
	return &Server{inner: inner}, nil
}

// RequireTLS13 raises the lowest TLS version. All callers are Go programs that speak it.
func RequireTLS13(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }

// Start serves until ctx is cancelled; requests under way are then finished.
func (s *Server) Start(ctx context.Context) error { return s.inner.Start(ctx) }

// NeedLeaderElection makes a manager start the Server on every replica, and, unlike a webhook server, only after its
// caches have synced: an answer from an empty cache would be a wrong one.
func (s *Server) NeedLeaderElection() bool { return false }

// Ready is a healthz.Checker: it returns nil once the server accepts connections.
func (s *Server) Ready(r *http.Request) error {
	if s.reached.Load() {
		return nil
	}
	if err := s.inner.StartedChecker()(r); err != nil {
		return err
	}
	s.reached.Store(true)
	return nil
}
