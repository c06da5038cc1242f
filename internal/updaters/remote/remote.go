package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
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

// Error is the error of an Updater's methods: its class says whether the updater was not reached, refused, or answered
// nonsense.
type Error = updaters.Error

// Class is the kind of an Error.
type Class = updaters.Class

// The classes of errors.
const (
	Unreachable = updaters.Unreachable
	Refused     = updaters.Refused
	Nonsense    = updaters.Nonsense
)

// maxRetryAfter is the longest that an updater may ask to be left alone. A year's wait would be a hang that looks like
// progress.
const maxRetryAfter = time.Hour

// Options say how an updater is reached.
type Options struct {
	// Name is the updater's name, for errors.
	Name string
	// URL is the https URL of the updater, without credentials, query and fragment.
	URL string
	// CABundle holds the certificates, in PEM, one of which must have signed the updater's; empty means the system's.
	CABundle []byte
	// ServerName is the name that the updater's certificate must be for; empty means the URL's host.
	ServerName string
	// Timeout is how long one request may take, its discovery included; zero means 10 s, at most 30 s.
	Timeout time.Duration
	// Dial opens connections; nil means the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Handlers fixes the names of the handlers; zero means that the updater is asked for them.
	Handlers Handlers
	// Now is the clock for the age of a discovery; nil means the real one.
	Now func() time.Time
}

// Updater is a port.Updater over HTTPS. It is safe for concurrent use.
type Updater struct {
	client *updaters.Client
	fixed  Handlers
	now    func() time.Time
	known  atomic.Pointer[discovered]
}

var _ port.Updater = &Updater{}

// New returns an Updater. It does not connect yet; Check does. Errors are about the options.
func New(o Options) (*Updater, error) {
	client, err := updaters.NewClient(updaters.ClientOptions{
		Name: o.Name, URL: o.URL, CABundle: o.CABundle, ServerName: o.ServerName, Timeout: o.Timeout, Dial: o.Dial,
	})
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Updater{client: client, fixed: o.Handlers, now: o.Now}, nil
}

// Close closes idle connections. The Updater can be used on.
func (u *Updater) Close() { u.client.Close() }

// Check implements port.Updater: it asks for the handlers anew.
func (u *Updater) Check(ctx context.Context) error {
	_, err := u.discover(ctx)
	return err
}

// CanUpdateMachine implements port.Updater. An updater that does not serve the hook covers nothing. Errors are *Error.
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

// CanUpdateMachineSet implements port.Updater. An updater that does not serve the hook covers nothing. Errors are *Error.
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
		return inplace.Answer{Outcome: inplace.Unknown, Message: err.Error()}
	}
	if handlers.UpdateMachine == "" {
		// Only fixed names can lack it.
		return inplace.Answer{Outcome: inplace.Unknown, Message: fmt.Sprintf("updater %s has no handler of %s; name one", u.client.Name(), hookUpdateMachine)}
	}
	response := &runtimehooksv1.UpdateMachineResponse{}
	err = u.callHandler(ctx, hookUpdateMachine, handlers.UpdateMachine, request.DeepCopy(), response)
	return answerOf(response, err)
}

// answerOf says what a response to UpdateMachine, or the error instead of one, means.
func answerOf(response *runtimehooksv1.UpdateMachineResponse, err error) inplace.Answer {
	message := updaters.CleanMessage(response.Message)
	retry := time.Duration(response.RetryAfterSeconds) * time.Second
	switch failure, ok := errors.AsType[*Error](err); {
	case ok && failure.Class == Refused:
		if message == "" {
			message = "the updater did not say why"
		}
		return inplace.Answer{Outcome: inplace.Fails, Message: message}
	case err != nil:
		return inplace.Answer{Outcome: inplace.Unknown, Message: err.Error()}
	case retry < 0:
		return inplace.Answer{Outcome: inplace.Unknown, Message: fmt.Sprintf(
			"the updater answered retryAfterSeconds %d, which means nothing; it must be 0 when done and above 0 before", response.RetryAfterSeconds)}
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
	if failure, ok := errors.AsType[*Error](err); ok && failure.Class != Refused {
		u.known.Store(nil)
	}
	return err
}

// call sends a request, whose type it sets, and decodes the response. Errors are *Error.
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
