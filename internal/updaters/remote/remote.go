package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
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
	ctx, cancel := context.WithTimeout(ctx, u.client.Timeout())
	defer cancel()
	handlers, err := u.handlers(ctx)
	if err != nil || handlers.CanUpdateMachine == "" {
		return cover.Patches{}, err
	}
	response := &runtimehooksv1.CanUpdateMachineResponse{}
	if err := u.callHandler(ctx, hookCanUpdateMachine, handlers.CanUpdateMachine, request.DeepCopy(), response); err != nil {
		return cover.Patches{}, err
	}
	return cover.Patches{
		Machine:        patchOf(response.MachinePatch),
		Infrastructure: patchOf(response.InfrastructureMachinePatch),
		Bootstrap:      patchOf(response.BootstrapConfigPatch),
	}, nil
}

// CanUpdateMachineSet implements port.Updater. An updater that does not serve the hook covers nothing. Errors are *updaters.Error.
func (u *Updater) CanUpdateMachineSet(ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest) (cover.Patches, error) {
	ctx, cancel := context.WithTimeout(ctx, u.client.Timeout())
	defer cancel()
	handlers, err := u.handlers(ctx)
	if err != nil || handlers.CanUpdateMachineSet == "" {
		return cover.Patches{}, err
	}
	response := &runtimehooksv1.CanUpdateMachineSetResponse{}
	if err := u.callHandler(ctx, hookCanUpdateMachineSet, handlers.CanUpdateMachineSet, request.DeepCopy(), response); err != nil {
		return cover.Patches{}, err
	}
	return cover.Patches{
		Machine:        patchOf(response.MachineSetPatch),
		Infrastructure: patchOf(response.InfrastructureMachineTemplatePatch),
		Bootstrap:      patchOf(response.BootstrapConfigTemplatePatch),
	}, nil
}

// UpdateMachine implements port.Updater.
func (u *Updater) UpdateMachine(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) inplace.Answer {
	ctx, cancel := context.WithTimeout(ctx, u.client.Timeout())
	defer cancel()
	handlers, err := u.handlers(ctx)
	if err != nil {
		// Whatever is wrong with the discovery, a Failure of it included, says nothing about the machine.
		return updaters.Unknown("%v", err)
	}
	response := &runtimehooksv1.UpdateMachineResponse{}
	err = u.callHandler(ctx, hookUpdateMachine, handlers.UpdateMachine, request.DeepCopy(), response)
	return answerOf(response, err)
}

// answerOf says what a response to UpdateMachine, or the error instead of one, means.
func answerOf(response *runtimehooksv1.UpdateMachineResponse, err error) inplace.Answer {
	message := updaters.CleanMessage(response.Message)
	retry := time.Duration(response.RetryAfterSeconds) * time.Second
	switch failure, ok := errors.AsType[*updaters.Error](err); {
	case ok && failure.Class == updaters.Refused:
		if message == "" {
			message = "the updater did not say why"
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

func patchOf(p runtimehooksv1.Patch) cover.Patch {
	return cover.Patch{Type: cover.PatchType(p.PatchType), Data: p.Patch}
}

// callHandler is call for a handler that was discovered. Where the updater was not reached or answered nonsense, the next call
// discovers again: the updater may be another one by then.
func (u *Updater) callHandler(ctx context.Context, hook, handler string, request runtimehooksv1.RequestObject, response runtimehooksv1.ResponseObject) error {
	err := u.call(ctx, hook, pathOf(hook, handler), request, response)
	if failure, ok := errors.AsType[*updaters.Error](err); ok && failure.Class != updaters.Refused {
		u.known.Store(nil)
	}
	return err
}

// call sends a request, whose type it sets, and decodes the response. Errors are *updaters.Error.
func (u *Updater) call(ctx context.Context, hook, below string, request runtime.Object, response runtimehooksv1.ResponseObject) error {
	request.GetObjectKind().SetGroupVersionKind(runtimehooksv1.GroupVersion.WithKind(hook + "Request"))
	body, err := json.Marshal(request)
	if err != nil {
		return u.client.Nonsense(below, "the request cannot be written as JSON", "check the objects of the machine", err)
	}
	content, err := u.client.Post(ctx, below, true, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, response); err != nil {
		return u.client.Nonsense(below, "the answer is not the JSON of a "+hook+"Response", "answer as the hook's definition says", err)
	}
	return u.checkResponse(hook, below, response)
}

// checkResponse refuses a response of another type, and one that is no success. Cluster API's own server leaves the type out.
func (u *Updater) checkResponse(hook, below string, response runtimehooksv1.ResponseObject) error {
	want := runtimehooksv1.GroupVersion.WithKind(hook + "Response")
	if got := response.GetObjectKind().GroupVersionKind(); !got.Empty() && got != want {
		return u.client.Nonsense(below, fmt.Sprintf("the answer is a %s of %s", updaters.CleanWord(got.Kind), updaters.CleanWord(got.GroupVersion().String())),
			fmt.Sprintf("answer with a %s of %s", want.Kind, want.GroupVersion()), nil)
	}
	switch status := response.GetStatus(); status {
	case runtimehooksv1.ResponseStatusSuccess:
		return nil
	case runtimehooksv1.ResponseStatusFailure:
		return u.client.Refused(below, response.GetMessage())
	default:
		return u.client.Nonsense(below, fmt.Sprintf("the answer has the status %q", updaters.CleanWord(string(status))), "answer Success or Failure", nil)
	}
}

// pathOf is the path of a hook's handler, as Cluster API makes it.
func pathOf(hook, handler string) string {
	return runtimecatalog.GVHToPath(runtimecatalog.GroupVersionHook{
		Group: runtimehooksv1.GroupVersion.Group, Version: runtimehooksv1.GroupVersion.Version, Hook: hook,
	}, handler)
}
