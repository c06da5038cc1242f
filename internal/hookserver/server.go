package hookserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"slices"

	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"

	"github.com/windlass-dev/windlass/internal/risks"
)

// The files of the serving certificate in Endpoint.CertDir, named as in a Secret of type kubernetes.io/tls.
const (
	CertName = "tls.crt"
	KeyName  = "tls.key"
)

// timeoutSeconds is how long Cluster API waits for an answer. Answers take milliseconds; it is upstream's default, said
// explicitly so that it shows in the ExtensionConfig.
const timeoutSeconds int32 = runtimehooksv1.DefaultHandlersTimeoutSeconds

// Options configure a Server.
type Options struct {
	Endpoint
	// Graphs is where the plan hook finds UpgradeGraphs; nil omits the hook.
	Graphs Graphs
	// Limits tells the plan hook how far workers can be moved at once; nil means as far as skew allows.
	Limits Limits
	// Risks are the known risks that UpgradeGraphs can block; nil means those of this release.
	Risks *risks.Set
	// ControlPlanes reads what these depend on; nil means that nothing is read.
	ControlPlanes ControlPlanes
	// Webhooks are served beside the hooks, by path: admission webhooks, which need the same certificate.
	Webhooks map[string]http.Handler
	// Updates serves the hooks for updates in place; nil omits them. UpdateTimeoutSeconds is how
	// long Cluster API waits for them; 0 means 30, the longest that it allows.
	Updates              Updates
	UpdateTimeoutSeconds int32
	// LeaderOnly has a manager start the Server only once its replica leads. Until then the Server is
	// not ready.
	LeaderOnly bool
	// Gates serves the lifecycle hooks of upgrades; nil omits them.
	Gates Gates
	// Refusals counts and logs calls that no object asks for; nil means nothing does.
	Refusals *Refusals
	// Wrap wraps each handler; nil means none is wrapped.
	Wrap func(http.Handler) http.Handler
}

// Server serves Discovery and the hooks over TLS. It is a manager.Runnable.
type Server struct {
	inner      *server.Server
	handlers   []server.ExtensionHandler
	leaderOnly bool
}

// New returns a Server that is ready to be started.
func New(o Options) (*Server, error) {
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		return nil, fmt.Errorf("building the catalog of hooks: %w", err)
	}
	listener, err := NewTLSServer(o.Endpoint)
	if err != nil {
		return nil, err
	}
	inner, err := server.New(server.Options{Catalog: catalog})
	if err != nil {
		return nil, fmt.Errorf("preparing the handlers: %w", err)
	}
	inner.Server = listener
	if o.Wrap != nil {
		inner.Server = &wrapping{Server: listener, wrap: o.Wrap}
	}
	all := handlers(o)
	for _, h := range all {
		if err := inner.AddExtensionHandler(h); err != nil {
			return nil, fmt.Errorf("adding the handler %s: %w", h.Name, err)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(o.Webhooks)) {
		inner.Register(path, o.Webhooks[path])
	}
	return &Server{inner: inner, handlers: all, leaderOnly: o.LeaderOnly}, nil
}

// handlers are what Discovery lists. Their failure policy is Fail: Ignore would turn an unreachable extension into an empty
// plan, into an open gate, or into an update that is done.
func handlers(o Options) []server.ExtensionHandler {
	var list []server.ExtensionHandler
	add := func(timeout int32, some ...server.ExtensionHandler) {
		for _, h := range some {
			h.TimeoutSeconds, h.FailurePolicy = &timeout, new(runtimehooksv1.FailurePolicyFail)
			list = append(list, h)
		}
	}
	if o.Graphs != nil {
		planner := NewUpgradePlanner(o.Graphs, o.Limits, o.Risks, o.ControlPlanes)
		add(timeoutSeconds, server.ExtensionHandler{
			Hook: runtimehooksv1.GenerateUpgradePlan, Name: GenerateUpgradePlanHandler, HandlerFunc: planner.GenerateUpgradePlan,
		})
	}
	if o.Gates != nil {
		add(timeoutSeconds, newLifecycle(o.Gates, o.Refusals).handlers()...)
	}
	if o.Updates != nil {
		add(cmp.Or(o.UpdateTimeoutSeconds, updateTimeoutSeconds), updater{updates: o.Updates, refusals: o.Refusals}.handlers()...)
	}
	return list
}

// Handlers are the hooks that the Server serves, for a caller in this process.
func (s *Server) Handlers() []server.ExtensionHandler { return slices.Clone(s.handlers) }

// RequireTLS13 raises the lowest TLS version. All callers are Go programs that speak it.
func RequireTLS13(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }

// Start serves until ctx is cancelled; requests under way are then finished.
func (s *Server) Start(ctx context.Context) error { return s.inner.Start(ctx) }

// NeedLeaderElection reports whether a manager starts the Server only once its replica leads. In any
// case a manager starts it after its caches have synced: an answer from an empty cache would be wrong.
func (s *Server) NeedLeaderElection() bool { return s.leaderOnly }

// Ready is a healthz.Checker: it returns nil once the server accepts connections.
func (s *Server) Ready(r *http.Request) error { return s.inner.StartedChecker()(r) }
