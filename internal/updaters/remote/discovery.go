package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/updaters"
)

// discoveryLifetime is how long an updater's answer to Discovery counts, unless a call fails.
const discoveryLifetime = time.Minute

// maxHandlers bounds how many handlers of a discovery are looked at. There are fewer than twenty hooks.
const maxHandlers = 256

// The names of the hooks that an updater serves.
const (
	hookCanUpdateMachine    = "CanUpdateMachine"
	hookCanUpdateMachineSet = "CanUpdateMachineSet"
	hookUpdateMachine       = "UpdateMachine"
	hookDiscovery           = "Discovery"
)

// Handlers are the names under which an updater serves the hooks; an empty name means that it does not serve that hook.
type Handlers struct {
	CanUpdateMachine, CanUpdateMachineSet, UpdateMachine string
}

// discovered is what a discovery found, and when.
type discovered struct {
	handlers Handlers
	at       time.Time
}

// handlers returns the names of the handlers: those that are known from less than discoveryLifetime
// ago, or else those that the updater answers now.
func (u *Updater) handlers(ctx context.Context) (Handlers, error) {
	if known := u.known.Load(); known != nil {
		if age := u.now().Sub(known.at); age >= 0 && age < discoveryLifetime {
			return known.handlers, nil
		}
	}
	return u.discover(ctx)
}

// discover asks the updater for its handlers. Two of them at once do no harm.
func (u *Updater) discover(ctx context.Context) (Handlers, error) {
	response := &runtimehooksv1.DiscoveryResponse{}
	asked := u.now()
	request := &runtimehooksv1.DiscoveryRequest{}
	request.SetGroupVersionKind(runtimehooksv1.GroupVersion.WithKind(hookDiscovery + "Request"))
	if err := u.client.Call(ctx, hookDiscovery, "", request, response); err != nil {
		u.known.Store(nil)
		return Handlers{}, err
	}
	handlers, problem, fix := selectHandlers(response.Handlers)
	if problem != "" {
		u.known.Store(nil)
		return Handlers{}, u.client.Nonsense(updaters.HookPath(hookDiscovery, ""), problem, fix, nil)
	}
	u.known.Store(&discovered{handlers: handlers, at: asked})
	return handlers, nil
}

// selectHandlers finds the handlers of the hooks in a discovery, or says what is wrong with it.
func selectHandlers(found []runtimehooksv1.ExtensionHandler) (handlers Handlers, problem, fix string) {
	if len(found) > maxHandlers {
		return Handlers{}, fmt.Sprintf("its discovery names %d handlers", len(found)), fmt.Sprintf("name at most %d", maxHandlers)
	}
	var other []string
	for _, handler := range found {
		field := handlers.field(handler.RequestHook.Hook)
		if field == nil {
			continue
		}
		version := handler.RequestHook.APIVersion
		switch {
		case version != runtimehooksv1.GroupVersion.String():
			other = append(other, updaters.CleanWord(version))
		case len(validation.IsDNS1123Label(handler.Name)) > 0:
			return Handlers{}, fmt.Sprintf("its discovery names the handler %q", updaters.CleanWord(handler.Name)),
				"a handler's name must be lower case letters, digits and dashes, as in can-update-machine"
		case *field != "":
			return Handlers{}, fmt.Sprintf("its discovery names two handlers of %s: %s and %s", handler.RequestHook.Hook, *field, handler.Name),
				"serve each hook once; use a URL for each where there are two updaters"
		default:
			*field = handler.Name
		}
	}
	problem, fix = judge(handlers, other)
	if problem != "" {
		return Handlers{}, problem, fix
	}
	return handlers, "", ""
}

// judge says what is wrong with what an updater serves; other are further versions of the hooks that it serves.
func judge(handlers Handlers, other []string) (problem, fix string) {
	if handlers.UpdateMachine != "" && (handlers.CanUpdateMachine != "" || handlers.CanUpdateMachineSet != "") {
		return "", ""
	}
	fix = fmt.Sprintf("serve %s, and %s or %s, of %s", hookUpdateMachine, hookCanUpdateMachine, hookCanUpdateMachineSet, runtimehooksv1.GroupVersion)
	switch {
	case len(other) > 0:
		slices.Sort(other)
		return "it serves the hooks for in-place updates in versions that are not known: " + strings.Join(slices.Compact(other), ", "), fix
	case handlers == Handlers{}:
		return "it serves none of the hooks for in-place updates", fix
	default:
		return "it serves only a part of the hooks for in-place updates", fix
	}
}

func (h *Handlers) field(hook string) *string {
	switch hook {
	case hookCanUpdateMachine:
		return &h.CanUpdateMachine
	case hookCanUpdateMachineSet:
		return &h.CanUpdateMachineSet
	case hookUpdateMachine:
		return &h.UpdateMachine
	default:
		return nil
	}
}
