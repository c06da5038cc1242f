package hookserver

import (
	"context"
	"math"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// The names under which the hooks for updates in place are registered.
const (
	CanUpdateMachineHandler    = "can-update-machine"
	CanUpdateMachineSetHandler = "can-update-machine-set"
	UpdateMachineHandler       = "update-machine"
)

// updateTimeoutSeconds is how long Cluster API waits for the hooks that ask updaters: the longest it allows.
const updateTimeoutSeconds int32 = 30

// Updates decides about updates in place and carries them out. Of a reply to UpdateMachine, the hook's
// answer has Done, RetryAfter and Message.
type Updates interface {
	CanUpdateMachine(ctx context.Context, request *runtimehooksv1.CanUpdateMachineRequest) (cover.Answer, error)
	CanUpdateMachineSet(ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest) (cover.Answer, error)
	MarkedUpdates
}

// MarkedUpdates carries out the updates of Machines that are marked already. An error means that the
// update does not continue, never that it is done.
type MarkedUpdates interface {
	UpdateMachine(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) (inplace.Reply, error)
}

// MarkedMachines returns a handler of the hook UpdateMachine, with the same answers as a Server's, for a
// caller in this process.
func MarkedMachines(updates MarkedUpdates) server.ExtensionHandler {
	return server.ExtensionHandler{
		Hook: runtimehooksv1.UpdateMachine, Name: UpdateMachineHandler,
		HandlerFunc:    markedUpdater{updates: updates}.UpdateMachine,
		TimeoutSeconds: new(updateTimeoutSeconds), FailurePolicy: new(runtimehooksv1.FailurePolicyFail),
	}
}

// updater answers the three hooks. Every error is an answer with the status Failure: Cluster API then neither updates nor
// replaces anything, and asks again.
type updater struct {
	updates  Updates
	refusals *Refusals
}

func (u updater) handlers() []server.ExtensionHandler {
	marked := markedUpdater{updates: u.updates, refusals: u.refusals}
	return []server.ExtensionHandler{
		{Hook: runtimehooksv1.CanUpdateMachine, Name: CanUpdateMachineHandler, HandlerFunc: u.CanUpdateMachine},
		{Hook: runtimehooksv1.CanUpdateMachineSet, Name: CanUpdateMachineSetHandler, HandlerFunc: u.CanUpdateMachineSet},
		{Hook: runtimehooksv1.UpdateMachine, Name: UpdateMachineHandler, HandlerFunc: marked.UpdateMachine},
	}
}

// CanUpdateMachine answers the hook of that name.
func (u updater) CanUpdateMachine(ctx context.Context, request *runtimehooksv1.CanUpdateMachineRequest, response *runtimehooksv1.CanUpdateMachineResponse) {
	coverage, err := u.updates.CanUpdateMachine(ctx, request)
	if err != nil {
		u.refusals.report(ctx, "CanUpdateMachine", err)
		failDecision(&response.CommonResponse, err)
		return
	}
	succeed(&response.CommonResponse, coverage.Message)
	response.MachinePatch = encodePatch(coverage.Patches.Machine)
	response.InfrastructureMachinePatch = encodePatch(coverage.Patches.Infrastructure)
	response.BootstrapConfigPatch = encodePatch(coverage.Patches.Bootstrap)
}

// CanUpdateMachineSet answers the hook of that name.
func (u updater) CanUpdateMachineSet(ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest, response *runtimehooksv1.CanUpdateMachineSetResponse) {
	coverage, err := u.updates.CanUpdateMachineSet(ctx, request)
	if err != nil {
		u.refusals.report(ctx, "CanUpdateMachineSet", err)
		failDecision(&response.CommonResponse, err)
		return
	}
	succeed(&response.CommonResponse, coverage.Message)
	response.MachineSetPatch = encodePatch(coverage.Patches.Machine)
	response.InfrastructureMachineTemplatePatch = encodePatch(coverage.Patches.Infrastructure)
	response.BootstrapConfigTemplatePatch = encodePatch(coverage.Patches.Bootstrap)
}

// markedUpdater answers the hook UpdateMachine.
type markedUpdater struct {
	updates  MarkedUpdates
	refusals *Refusals
}

// UpdateMachine answers the hook of that name.
func (u markedUpdater) UpdateMachine(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest, response *runtimehooksv1.UpdateMachineResponse) {
	reply, err := u.updates.UpdateMachine(ctx, request)
	if err != nil {
		u.refusals.report(ctx, "UpdateMachine", err)
		fail(&response.CommonResponse, err)
		return
	}
	succeed(&response.CommonResponse, reply.Message)
	if !reply.Done {
		response.RetryAfterSeconds = encodeRetry(reply.RetryAfter)
	}
}

// encodeRetry rounds up to whole seconds, of which 0 would say that the update is done.
func encodeRetry(after time.Duration) int32 {
	seconds := math.Ceil(after.Seconds())
	return int32(min(max(seconds, 1), math.MaxInt32))
}

func encodePatch(p cover.Patch) runtimehooksv1.Patch {
	return runtimehooksv1.Patch{PatchType: runtimehooksv1.PatchType(p.Type), Patch: p.Data}
}

// failDecision is fail with a message that tells a cover.NotCoveredError from other errors.
func failDecision(response *runtimehooksv1.CommonResponse, err error) {
	response.Status = runtimehooksv1.ResponseStatusFailure
	response.Message = cover.EncodeRefusal(err, maxMessageBytes)
}

func fail(response *runtimehooksv1.CommonResponse, err error) {
	response.Status, response.Message = runtimehooksv1.ResponseStatusFailure, boundMessage(err.Error())
}

func succeed(response *runtimehooksv1.CommonResponse, message string) {
	response.Status, response.Message = runtimehooksv1.ResponseStatusSuccess, boundMessage(message)
}
