package hookclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/peer"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// maxResponseBytes bounds what is read of an answer: far more than any patches for the objects of a Cluster need, and what Cluster API itself
// accepts.
const maxResponseBytes = 20 << 20

// call makes one request to an extension, whatever the hook, and returns its answer: it was understood, and its status is Success, or there is a
// *RefusedError with it. ignored says that no such answer came, and that by the failure policy Success stands in its place. request is changed. If the
// caller's ctx is done, the error is its cause whatever the policy: nobody waits for the answer.
func (c *Client) call(
	ctx context.Context, hook runtimecatalog.GroupVersionHook, to registration, request runtime.Object,
) (answer runtimehooksv1.ResponseObject, ignored bool, err error) {
	start := time.Now()
	answer, err = c.exchange(ctx, hook, to, request)
	if err == nil {
		err = checkAnswer(to.call, answer)
	}
	ignored = decideIgnored(computePolicy(hook.GroupHook(), to.policy), err)
	result := computeResult(answer, ignored, err)
	took := time.Since(start)
	c.metrics.observe(to.call, result, took)
	c.metrics.stock.observe(hook, to.connection.base.Host, answer, err, took)
	c.states.log(ctx, to.call, result, err)
	if ignored {
		if answer, err = c.newResponse(hook); err != nil {
			return nil, false, err
		}
		answer.SetStatus(runtimehooksv1.ResponseStatusSuccess)
		return answer, true, nil
	}
	if _, refused := errors.AsType[*RefusedError](err); err != nil && !refused {
		return nil, false, err
	}
	return answer, false, err
}

// checkAnswer returns an error if an answer is none, or a refusal.
func checkAnswer(call Call, answer runtimehooksv1.ResponseObject) error {
	switch answer.GetStatus() {
	case runtimehooksv1.ResponseStatusFailure:
		return &RefusedError{Call: call, Message: boundMessage(answer.GetMessage())}
	case runtimehooksv1.ResponseStatusSuccess:
		if retry, ok := answer.(runtimehooksv1.RetryResponseObject); ok && retry.GetRetryAfterSeconds() < 0 {
			return &BadResponseError{
				Call: call, StatusCode: http.StatusOK, Detail: fmt.Sprintf("retryAfterSeconds is %d", retry.GetRetryAfterSeconds()), understood: true,
			}
		}
		return nil
	}
	return &BadResponseError{
		Call: call, StatusCode: http.StatusOK, understood: true,
		Detail: fmt.Sprintf("its status is %s, neither Success nor Failure; it says %s", quote(string(answer.GetStatus())), quote(answer.GetMessage())),
	}
}

// exchange sends a request in the version that the extension serves, and returns the answer in that of hook.
func (c *Client) exchange(ctx context.Context, hook runtimecatalog.GroupVersionHook, to registration, request runtime.Object) (runtimehooksv1.ResponseObject, error) {
	answer, err := c.newResponse(hook)
	if err != nil {
		return nil, err
	}
	converts := to.served.Version != hook.Version
	out, in := request, runtime.Object(answer)
	if converts {
		if out, err = c.catalog.NewRequest(to.served); err != nil {
			return nil, fmt.Errorf("%s: %w", to.call, err)
		}
		if in, err = c.catalog.NewResponse(to.served); err != nil {
			return nil, fmt.Errorf("%s: %w", to.call, err)
		}
		if err := c.catalog.Convert(request, out, ctx); err != nil {
			return nil, fmt.Errorf("%s: converting the request to %s: %w", to.call, to.served.Version, err)
		}
	}
	kind, err := c.catalog.Request(to.served)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to.call, err)
	}
	out.GetObjectKind().SetGroupVersionKind(kind)
	if err := send(ctx, to, out, in); err != nil {
		return nil, err
	}
	if converts {
		if err := c.catalog.Convert(in, answer, ctx); err != nil {
			return nil, fmt.Errorf("%s: converting the response from %s: %w", to.call, to.served.Version, err)
		}
		return answer, nil
	}
	answer, ok := in.(runtimehooksv1.ResponseObject)
	if !ok {
		return nil, fmt.Errorf("%s: a %T has no status", to.call, in)
	}
	return answer, nil
}

// answerLimits bound an answer once it is decoded. That of GeneratePatches has a patch for each group
// of a Cluster, of which there may be thousands.
var answerLimits = untrusted.Limits{Bytes: maxResponseBytes, Depth: 64, Nodes: 500_000}

// send encodes a request and decodes the answer into in.
func send(ctx context.Context, to registration, out, in runtime.Object) error {
	body, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("%s: encoding the request: %w", to.call, err)
	}
	deliver := post
	if local := to.connection.local; local != nil {
		deliver = local.call
	}
	if body, err = deliver(ctx, to, body); err != nil {
		return err
	}
	if err := answerLimits.Unmarshal(body, in); err != nil {
		return &BadResponseError{Call: to.call, StatusCode: http.StatusOK, Detail: "it does not decode: " + boundMessage(err.Error())}
	}
	return nil
}

// badStatus is an answer with another HTTP status than 200.
func badStatus(call Call, status int, start string) error {
	return &BadResponseError{
		Call: call, StatusCode: status, Detail: fmt.Sprintf("HTTP status %d instead of 200, with %s", status, quote(start)),
	}
}

// newResponse returns an empty response for a hook.
func (c *Client) newResponse(hook runtimecatalog.GroupVersionHook) (runtimehooksv1.ResponseObject, error) {
	object, err := c.catalog.NewResponse(hook)
	if err != nil {
		return nil, fmt.Errorf("calling a hook: %w", err)
	}
	response, ok := object.(runtimehooksv1.ResponseObject)
	if !ok {
		return nil, fmt.Errorf("calling hook %s: a %T has no status", hook.Hook, object)
	}
	return response, nil
}

// post sends a body and returns that of the answer, whose status was 200.
func post(ctx context.Context, to registration, body []byte) ([]byte, error) {
	bounded, cancel := context.WithTimeout(ctx, to.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(bounded, http.MethodPost, to.connection.url(to.served, to.call.Handler, to.timeout), bytes.NewReader(body))
	if err != nil {
		// The error quotes the URL.
		return nil, &MisconfiguredError{
			ExtensionConfig: to.call.ExtensionConfig, Field: "spec.clientConfig", Detail: "makes no URL", Remedy: "name a Service, or a URL as https://host:port/path",
		}
	}
	request.Header.Set("Content-Type", "application/json")
	// Hooks are idempotent by contract. Where a connection that was kept turns out to be closed, as after a restart of the extension, the transport then
	// uses a new one. An empty value is not sent.
	request.Header["Idempotency-Key"] = nil
	response, err := to.connection.http.Do(request)
	if err != nil {
		return nil, unreachable(ctx, to, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		// Not more is shown than this; a body that breaks off shows as far as it came.
		start, _ := io.ReadAll(io.LimitReader(response.Body, 4*maxBodyBytes))
		return nil, badStatus(to.call, response.StatusCode, string(start))
	}
	answer, err := io.ReadAll(response.Body)
	if _, huge := errors.AsType[*peer.TooLongError](err); huge {
		return nil, &BadResponseError{Call: to.call, StatusCode: http.StatusOK, Detail: fmt.Sprintf("it has more than %d MiB", maxResponseBytes>>20)}
	}
	if err != nil {
		return nil, unreachable(ctx, to, err)
	}
	return answer, nil
}

// unreachable says that a call failed on the way, or that the caller did not wait for it.
func unreachable(ctx context.Context, to registration, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", to.call, context.Cause(ctx))
	}
	// A url.Error quotes the URL.
	if wrapper, ok := errors.AsType[*url.Error](err); ok {
		err = wrapper.Err
	}
	fault, detail := computeFault(err, to.timeout)
	return &UnreachableError{Call: to.call, Host: to.connection.base.Host, Fault: fault, Detail: detail, Timeout: to.timeout, cause: err}
}
