package updaterserver

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"

	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/port"
)

// The names of the handlers.
const (
	CanUpdateMachineHandler    = "can-update-machine"
	CanUpdateMachineSetHandler = "can-update-machine-set"
	UpdateMachineHandler       = "update-machine"
)

// timeoutSeconds is what Discovery says about each handler: upstream's default, said explicitly.
const timeoutSeconds int32 = runtimehooksv1.DefaultHandlersTimeoutSeconds

// Options configure a Server.
type Options struct {
	hookserver.Endpoint
	// Updater is what is served.
	Updater port.Updater
}

// Server serves an updater over TLS.
type Server struct {
	inner   *server.Server
	updater port.Updater
	faults  atomic.Pointer[Fault]
	reached atomic.Bool
}

// New returns a Server that is ready to be started.
func New(o Options) (*Server, error) {
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		return nil, fmt.Errorf("building the catalog of hooks: %w", err)
	}
	listener, err := hookserver.NewTLSServer(o.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("creating the updater's server: %w", err)
	}
	inner, err := server.New(server.Options{Catalog: catalog})
	if err != nil {
		return nil, fmt.Errorf("creating the updater's server: %w", err)
	}
	s := &Server{inner: inner, updater: o.Updater}
	// The handlers are registered with this when the server starts.
	inner.Server = &interceptor{Server: listener, wrap: s.intercept}
	failurePolicy, timeout := runtimehooksv1.FailurePolicyFail, timeoutSeconds
	for _, handler := range []server.ExtensionHandler{
		{Hook: runtimehooksv1.CanUpdateMachine, Name: CanUpdateMachineHandler, HandlerFunc: s.canUpdateMachine},
		{Hook: runtimehooksv1.CanUpdateMachineSet, Name: CanUpdateMachineSetHandler, HandlerFunc: s.canUpdateMachineSet},
		{Hook: runtimehooksv1.UpdateMachine, Name: UpdateMachineHandler, HandlerFunc: s.updateMachine},
	} {
		handler.TimeoutSeconds, handler.FailurePolicy = &timeout, &failurePolicy
		if err := inner.AddExtensionHandler(handler); err != nil {
			return nil, fmt.Errorf("adding the handler %s: %w", handler.Name, err)
		}
	}
	return s, nil
}

// Start serves until ctx is cancelled; requests under way are then finished.
func (s *Server) Start(ctx context.Context) error { return s.inner.Start(ctx) }

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

func (s *Server) canUpdateMachine(ctx context.Context, request *runtimehooksv1.CanUpdateMachineRequest, response *runtimehooksv1.CanUpdateMachineResponse) {
	patches, err := s.updater.CanUpdateMachine(ctx, request)
	if conclude(response, err) {
		response.MachinePatch = patchOf(patches.Machine)
		response.InfrastructureMachinePatch = patchOf(patches.Infrastructure)
		response.BootstrapConfigPatch = patchOf(patches.Bootstrap)
	}
}

func (s *Server) canUpdateMachineSet(ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest, response *runtimehooksv1.CanUpdateMachineSetResponse) {
	patches, err := s.updater.CanUpdateMachineSet(ctx, request)
	if conclude(response, err) {
		response.MachineSetPatch = patchOf(patches.Machine)
		response.InfrastructureMachineTemplatePatch = patchOf(patches.Infrastructure)
		response.BootstrapConfigTemplatePatch = patchOf(patches.Bootstrap)
	}
}

func (s *Server) updateMachine(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest, response *runtimehooksv1.UpdateMachineResponse) {
	answer := s.updater.UpdateMachine(ctx, request)
	response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	response.SetMessage(answer.Message)
	switch answer.Outcome {
	case inplace.InProgress:
		// Rounded up: 0 would say that it is done.
		response.SetRetryAfterSeconds(max(1, secondsOf(answer.RetryAfter)))
	case inplace.Finishes:
	case inplace.Fails:
		response.SetStatus(runtimehooksv1.ResponseStatusFailure)
	case inplace.Unknown:
		// The hook has no word for it. An HTTP error is what a caller has to treat as "not known".
		response.SetStatus(runtimehooksv1.ResponseStatusFailure)
		markUnavailable(ctx)
	}
}

// conclude sets the status of a response, and reports whether it is a success.
func conclude(response runtimehooksv1.ResponseObject, err error) bool {
	if err != nil {
		response.SetStatus(runtimehooksv1.ResponseStatusFailure)
		response.SetMessage(err.Error())
		return false
	}
	response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	return true
}

func patchOf(p cover.Patch) runtimehooksv1.Patch {
	return runtimehooksv1.Patch{PatchType: runtimehooksv1.PatchType(p.Type), Patch: p.Data}
}
