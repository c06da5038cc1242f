package updaterserver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/port"
)

// Options configure a Server.
type Options struct {
	hookserver.Endpoint
	// Updater is what is served.
	Updater port.Updater
}

// Server serves an updater over TLS.
type Server struct {
	*hookserver.Server

	faults atomic.Pointer[Fault]
}

// New returns a Server that is ready to be started.
func New(o Options) (*Server, error) {
	s := &Server{}
	var err error
	s.Server, err = hookserver.New(hookserver.Options{
		Endpoint: o.Endpoint, Updates: updates{o.Updater}, Wrap: s.intercept,
		UpdateTimeoutSeconds: runtimehooksv1.DefaultHandlersTimeoutSeconds,
	})
	if err != nil {
		return nil, fmt.Errorf("creating the updater's server: %w", err)
	}
	return s, nil
}

// updates answers the hooks with an updater.
type updates struct{ updater port.Updater }

// CanUpdateMachine implements hookserver.Updates.
func (u updates) CanUpdateMachine(
	ctx context.Context, request *runtimehooksv1.CanUpdateMachineRequest,
) (cover.Answer, error) {
	patches, err := u.updater.CanUpdateMachine(ctx, request)
	return cover.Answer{Patches: patches}, err
}

// CanUpdateMachineSet implements hookserver.Updates.
func (u updates) CanUpdateMachineSet(
	ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest,
) (cover.Answer, error) {
	patches, err := u.updater.CanUpdateMachineSet(ctx, request)
	return cover.Answer{Patches: patches}, err
}

// UpdateMachine implements hookserver.Updates.
func (u updates) UpdateMachine(
	ctx context.Context, request *runtimehooksv1.UpdateMachineRequest,
) (inplace.Reply, error) {
	answer := u.updater.UpdateMachine(ctx, request)
	switch answer.Outcome {
	case inplace.InProgress, inplace.Finishes:
		return inplace.Reply{
			Done: answer.Outcome == inplace.Finishes, RetryAfter: answer.RetryAfter, Message: answer.Message,
		}, nil
	case inplace.Unknown:
		// The hook has no word for it. An HTTP error is what a caller has to treat as "not known".
		markUnavailable(ctx)
	case inplace.Fails:
	}
	return inplace.Reply{}, errors.New(answer.Message)
}
