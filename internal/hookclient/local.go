package hookclient

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"runtime/debug"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"

	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/text"
)

// local calls hooks of this process as functions. It finds, bounds and fails as a server would, and
// each side gets what JSON makes of the other's object: a RawExtension that Cluster API fills with an
// Object reaches the handler as Raw. It is safe for concurrent use if its handlers are.
type local struct {
	// handlers are what answers, by the path of the hook's URL.
	handlers map[string]localHandler
	// panics are those that the log has, by the name of the extension.
	panics *keyed.Once[string]
}

type localHandler struct {
	newRequest, newResponse func() (runtime.Object, error)
	// function is a func(context.Context, *Request, *Response).
	function reflect.Value
}

// newLocal calls handlers and, as upstream's server does, Discovery of them.
func newLocal(catalog *runtimecatalog.Catalog, handlers []server.ExtensionHandler) (*local, error) {
	// Upstream's server knows which functions it can call.
	check, err := server.New(server.Options{Catalog: catalog})
	if err != nil {
		return nil, fmt.Errorf("checking the handlers: %w", err)
	}
	discovery := &runtimehooksv1.DiscoveryResponse{}
	discovery.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	l := &local{handlers: map[string]localHandler{}, panics: keyed.NewOnce[string](keyed.Forever, 0)}
	for _, h := range handlers {
		if err := check.AddExtensionHandler(h); err != nil {
			return nil, fmt.Errorf("handler %q: %w", h.Name, err)
		}
		gvh, err := l.add(catalog, h.Hook, h.Name, h.HandlerFunc)
		if err != nil {
			return nil, err
		}
		discovery.Handlers = append(discovery.Handlers, runtimehooksv1.ExtensionHandler{
			Name: h.Name, RequestHook: runtimehooksv1.GroupVersionHook{APIVersion: gvh.GroupVersion().String(), Hook: gvh.Hook},
			TimeoutSeconds: h.TimeoutSeconds, FailurePolicy: h.FailurePolicy,
		})
	}
	discover := func(_ any, _ *runtimehooksv1.DiscoveryRequest, response *runtimehooksv1.DiscoveryResponse) {
		discovery.DeepCopyInto(response)
	}
	if _, err := l.add(catalog, runtimehooksv1.Discovery, "", discover); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *local) add(catalog *runtimecatalog.Catalog, hook runtimecatalog.Hook, name string, function any) (runtimecatalog.GroupVersionHook, error) {
	gvh, err := catalog.GroupVersionHook(hook)
	if err != nil {
		return gvh, fmt.Errorf("handler %q: %w", name, err)
	}
	l.handlers[runtimecatalog.GVHToPath(gvh, name)] = localHandler{
		newRequest:  func() (runtime.Object, error) { return catalog.NewRequest(gvh) },
		newResponse: func() (runtime.Object, error) { return catalog.NewResponse(gvh) },
		function:    reflect.ValueOf(function),
	}
	return gvh, nil
}

// panicError is a panic of a handler. Over HTTP it would end the connection.
type panicError struct {
	// value is what the handler panicked with, bounded to one line.
	value string
}

func (e *panicError) Error() string { return "panic: " + e.value }

// recovered returns the error for a panic, and logs it with the stack unless the handler's last panic
// had the same value: Cluster API repeats a call that failed. The caller may have gone by now.
func (l *local) recovered(ctx context.Context, call Call, value any, stack []byte) *panicError {
	failure := &panicError{value: text.Bound(fmt.Sprint(value), maxBodyBytes)}
	if l.panics.Changed(call.Extension(), failure.value, time.Time{}) {
		loggerFor(ctx, call).Error(failure, "Handler in this process panicked", "stack", string(stack))
	}
	return failure
}

// call calls a handler with the request that body holds, and returns its encoded response. It returns
// when ctx is done, even if the handler does not.
func (l *local) call(ctx context.Context, to registration, body []byte) ([]byte, error) {
	h, ok := l.handlers[runtimecatalog.GVHToPath(to.served, to.call.Handler)]
	if !ok {
		return nil, badStatus(to.call, http.StatusNotFound, "404 page not found\n")
	}
	request, err := h.newRequest()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to.call, err)
	}
	if err := json.Unmarshal(body, request); err != nil {
		return nil, fmt.Errorf("%s: decoding the request: %w", to.call, err)
	}
	response, err := h.newResponse()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to.call, err)
	}
	bounded, cancel := context.WithTimeout(ctx, to.timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		var failure error
		defer func() {
			if value := recover(); value != nil {
				failure = l.recovered(ctx, to.call, value, debug.Stack())
			}
			done <- failure
		}()
		h.function.Call([]reflect.Value{reflect.ValueOf(bounded), reflect.ValueOf(request), reflect.ValueOf(response)})
	}()
	select {
	case <-bounded.Done():
		return nil, unreachable(ctx, to, bounded.Err())
	case failure := <-done:
		// A handler that returns because its time is up has not answered.
		if err := cmp.Or(failure, bounded.Err()); err != nil {
			return nil, unreachable(ctx, to, err)
		}
	}
	answer, err := json.Marshal(response)
	if err != nil {
		return nil, fmt.Errorf("%s: encoding the response: %w", to.call, err)
	}
	return answer, nil
}
