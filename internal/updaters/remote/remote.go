package remote

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/updaters"
)

// maxRetryAfter is the longest that an updater may ask to be left alone. A year's wait would be a hang that looks like
// progress.
const maxRetryAfter = time.Hour

// Updater is a port.Updater over HTTPS. It is safe for concurrent use.
type Updater struct {
	// Ready answers without a request: Cluster API's hooks have no such question.
	updaters.Ready

	client *updaters.Client
	now    func() time.Time
	known  atomic.Pointer[discovered]
}

var _ port.Updater = &Updater{}

// New returns an Updater. It does not connect yet; Check does. Errors are about the options. A
// discovery counts for a while by the clock now.
func New(o updaters.ClientOptions, now func() time.Time) (*Updater, error) {
	client, err := updaters.NewClient(o)
	if err != nil {
		return nil, err
	}
	return &Updater{client: client, now: now}, nil
}

// Close closes idle connections. The Updater can be used on.
func (u *Updater) Close() { u.client.Close() }

// Check implements port.Updater: it asks for the handlers anew.
func (u *Updater) Check(ctx context.Context) error {
	_, err := u.discover(ctx)
	return err
}

// CanUpdateMachine implements port.Updater. An updater that does not serve the hook covers nothing. Errors are *updaters.Error.
func (u *Updater) CanUpdateMachine(ctx context.Context, request *runtimehooksv1.CanUpdateMachineRequest) (cover.Patches, error) {
	response := &runtimehooksv1.CanUpdateMachineResponse{}
	if _, err := u.ask(ctx, hookCanUpdateMachine, request.DeepCopy(), response); err != nil {
		return cover.Patches{}, err
	}
	return updaters.MachinePatches(response), nil
}

// CanUpdateMachineSet implements port.Updater. An updater that does not serve the hook covers nothing. Errors are *updaters.Error.
func (u *Updater) CanUpdateMachineSet(ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest) (cover.Patches, error) {
	response := &runtimehooksv1.CanUpdateMachineSetResponse{}
	if _, err := u.ask(ctx, hookCanUpdateMachineSet, request.DeepCopy(), response); err != nil {
		return cover.Patches{}, err
	}
	return updaters.MachineSetPatches(response), nil
}

// UpdateMachine implements port.Updater.
func (u *Updater) UpdateMachine(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) inplace.Answer {
	response := &runtimehooksv1.UpdateMachineResponse{}
	asked, err := u.ask(ctx, hookUpdateMachine, request.DeepCopy(), response)
	if !asked {
		// Whatever is wrong with the discovery, a Failure of it included, says nothing about the machine.
		return updaters.Unknown("%v", err)
	}
	return answerOf(response, err)
}

// answerOf says what a response to UpdateMachine, or the error instead of one, means.
func answerOf(response *runtimehooksv1.UpdateMachineResponse, err error) inplace.Answer {
	message := updaters.CleanMessage(response.Message)
	retry := time.Duration(response.RetryAfterSeconds) * time.Second
	switch failure, ok := errors.AsType[*updaters.Error](err); {
	case ok && failure.Class == updaters.Refused:
		if message == "" {
			message = "the updater gave no reason"
		}
		return updaters.Fails("%s", message)
	case err != nil:
		return updaters.Unknown("%v", err)
	case retry < 0:
		return updaters.Unknown("the updater answered retryAfterSeconds %d, which means nothing; "+
			"it must be 0 when done and above 0 before", response.RetryAfterSeconds)
	case retry > 0:
		return inplace.Answer{Outcome: inplace.InProgress, Message: message, RetryAfter: min(retry, maxRetryAfter)}
	default:
		return inplace.Answer{Outcome: inplace.Finishes, Message: message}
	}
}

// ask calls the handler of a hook. asked is false if the discovery failed, or the updater does not
// serve the hook, and then nothing was asked. Where the updater was not reached or answered
// nonsense, the next call discovers again: the updater may be another one by then.
func (u *Updater) ask(
	ctx context.Context, hook string, request runtimehooksv1.RequestObject, response runtimehooksv1.ResponseObject,
) (asked bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, u.client.Timeout())
	defer cancel()
	handlers, err := u.handlers(ctx)
	handler := handlers.field(hook)
	if err != nil || *handler == "" {
		return false, err
	}
	request.GetObjectKind().SetGroupVersionKind(runtimehooksv1.GroupVersion.WithKind(hook + "Request"))
	err = u.client.Call(ctx, hook, *handler, request, response)
	if failure, ok := errors.AsType[*updaters.Error](err); ok && failure.Class != updaters.Refused {
		u.known.Store(nil)
	}
	return true, err
}
