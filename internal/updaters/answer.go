package updaters

import (
	"context"
	"fmt"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// Coverer answers CanUpdateMachine and CanUpdateMachineSet with the patches that it computes from
// the objects of a request. Updaters embed it.
type Coverer func(ctx context.Context, scope cover.Scope, current, desired cover.Objects) (cover.Patches, error)

// CanUpdateMachine implements port.Updater.
func (c Coverer) CanUpdateMachine(
	ctx context.Context, request *runtimehooksv1.CanUpdateMachineRequest,
) (cover.Patches, error) {
	current, desired, err := MachineObjects(request)
	if err != nil {
		return cover.Patches{}, err
	}
	return c(ctx, cover.Machine, current, desired)
}

// CanUpdateMachineSet implements port.Updater.
func (c Coverer) CanUpdateMachineSet(
	ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest,
) (cover.Patches, error) {
	current, desired, err := MachineSetObjects(request)
	if err != nil {
		return cover.Patches{}, err
	}
	return c(ctx, cover.MachineSet, current, desired)
}

// Ready answers CanBegin with yes. Updaters embed it that have no such question, or have answered it
// with what they cover.
type Ready struct{}

// CanBegin implements port.Updater. It makes no request.
func (Ready) CanBegin(context.Context, *runtimehooksv1.UpdateMachineRequest) inplace.Readiness {
	return inplace.Readiness{}
}

// Readiness returns what an answer to UpdateMachine means for the question whether the update can begin.
func Readiness(a inplace.Answer) inplace.Readiness {
	switch a.Outcome {
	case inplace.Fails:
		return inplace.Readiness{Refused: a.Message}
	case inplace.Unknown:
		return inplace.Readiness{Unknown: a.Message, RetryAfter: a.RetryAfter}
	case inplace.InProgress, inplace.Finishes:
	}
	return inplace.Readiness{}
}

// Fails returns the answer that an update has failed.
func Fails(format string, args ...any) inplace.Answer {
	return inplace.Answer{Outcome: inplace.Fails, Message: fmt.Sprintf(format, args...)}
}

// Unknown returns the answer that nobody knows how an update goes on.
func Unknown(format string, args ...any) inplace.Answer {
	return inplace.Answer{Outcome: inplace.Unknown, Message: fmt.Sprintf(format, args...)}
}
