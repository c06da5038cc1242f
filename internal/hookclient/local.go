package hookclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
)

// local answers hooks in this process. It stands where otherwise the network is, and encodes and decodes as upstream's server does:
// what a handler sees and what comes back are the same bytes as over HTTP. It is safe for concurrent use if its handlers are.
type local struct {
	// handlers are what answers, by the URL's path.
	handlers map[string]localHandler
}

type localHandler struct {
	newRequest  func() (runtime.Object, error)
	newResponse func() (runtime.Object, error)
	// function is a func(context.Context, *Request, *Response).
	function reflect.Value
}

// newLocal serves handlers and, as upstream's server does, Discovery of them.
func newLocal(catalog *runtimecatalog.Catalog, handlers []server.ExtensionHandler) (*local, error) {
	// Upstream's server knows which functions it can call.
	check, err := server.New(server.Options{Catalog: catalog})
	if err != nil {
		return nil, fmt.Errorf("checking the handlers: %w", err)
	}
	discovery := &runtimehooksv1.DiscoveryResponse{}
	discovery.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	l := &local{handlers: map[string]localHandler{}}
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
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// RoundTrip implements http.RoundTripper. As over HTTP, it returns when the request's context is done, whether the handler looks at it or not.
func (l *local) RoundTrip(request *http.Request) (*http.Response, error) {
	type outcome struct {
		status int
		body   []byte
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if value := recover(); value != nil {
				o.err = &panicError{value: value}
			}
			done <- o
		}()
		o.status, o.body, o.err = l.answer(request)
	}()
	select {
	case <-request.Context().Done():
		return nil, request.Context().Err()
	case o := <-done:
		if o.err != nil {
			return nil, o.err
		}
		return &http.Response{
			StatusCode: o.status, Status: http.StatusText(o.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
			Request: request, ContentLength: int64(len(o.body)), Body: io.NopCloser(bytes.NewReader(o.body)),
		}, nil
	}
}

func (l *local) answer(request *http.Request) (status int, body []byte, err error) {
	h, ok := l.handlers[request.URL.Path]
	if !ok {
		return http.StatusNotFound, []byte("404 page not found\n"), nil
	}
	defer func() { _ = request.Body.Close() }()
	in, err := h.newRequest()
	if err != nil {
		return 0, nil, err
	}
	empty, err := h.newResponse()
	if err != nil {
		return 0, nil, err
	}
	out, ok := empty.(runtimehooksv1.ResponseObject)
	if !ok {
		return 0, nil, fmt.Errorf("a %T has no status", empty)
	}
	sent, err := io.ReadAll(request.Body)
	if err != nil {
		return 0, nil, fmt.Errorf("reading the request: %w", err)
	}
	if err := json.Unmarshal(sent, in); err != nil {
		// As upstream's server does, in its words. It is an answer: no failure policy makes Success of it.
		out.SetStatus(runtimehooksv1.ResponseStatusFailure)
		out.SetMessage("error unmarshalling request: " + err.Error())
	} else {
		h.function.Call([]reflect.Value{reflect.ValueOf(request.Context()), reflect.ValueOf(in), reflect.ValueOf(out)})
	}
	body, err = json.Marshal(out)
	if err != nil {
		return http.StatusInternalServerError, []byte("unable to marshal response: " + err.Error()), nil
	}
	return http.StatusOK, body, nil
}
