package hookclient

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GetAllExtensions returns the names of the extensions that are registered for a hook and whose namespace selector selects the object's
// namespace, sorted. If there are none, it returns that of the fallback for the hook, if there is one.
func (c *Client) GetAllExtensions(ctx context.Context, hook runtimecatalog.Hook, forObject client.Object) ([]string, error) {
	gvh, err := c.catalog.GroupVersionHook(hook)
	if err != nil {
		return nil, fmt.Errorf("finding the extensions for a hook: %w", err)
	}
	found, err := c.matching(ctx, gvh, forObject.GetNamespace())
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(found))
	for _, r := range found {
		names = append(names, r.call.Extension())
	}
	return names, nil
}

// CallAllExtensions calls the extensions that GetAllExtensions returns, in that order, and stops at the first error. The response then gets the
// status Success, all messages, joined by ", ", and the lowest retryAfterSeconds that is not 0.
func (c *Client) CallAllExtensions(
	ctx context.Context, hook runtimecatalog.Hook, forObject client.Object, request runtimehooksv1.RequestObject, response runtimehooksv1.ResponseObject,
) error {
	gvh, err := c.checkTypes(hook, request, response)
	if err != nil {
		return err
	}
	found, err := c.matching(ctx, gvh, forObject.GetNamespace())
	if err != nil {
		return err
	}
	answers := make([]runtimehooksv1.ResponseObject, 0, len(found))
	for _, r := range found {
		answer, _, err := c.call(ctx, gvh, r, computeRequest(request, r.settings))
		if err != nil {
			return err
		}
		answers = append(answers, answer)
	}
	applyAggregate(response, answers)
	return nil
}

// CallExtension calls one extension. Settings of the request go before those of its ExtensionConfig. On a *RefusedError the response is what the extension
// answered; on other errors it is as it was. With a cache, answers are remembered that neither block nor were ignored.
func (c *Client) CallExtension(
	ctx context.Context, hook runtimecatalog.Hook, forObject client.Object, name string,
	request runtimehooksv1.RequestObject, response runtimehooksv1.ResponseObject, opts ...runtimeclient.CallExtensionOption,
) error {
	options := &runtimeclient.CallExtensionOptions{}
	for _, o := range opts {
		o.ApplyToOptions(options)
	}
	gvh, err := c.checkTypes(hook, request, response)
	if err != nil {
		return err
	}
	r, err := c.registered(ctx, gvh, name, forObject.GetNamespace())
	if err != nil {
		return err
	}
	request = computeRequest(request, r.settings)
	key := ""
	if options.WithCaching {
		key = options.CacheKeyFunc(name, r.resourceVersion, request)
		if entry, ok := options.Cache.Has(key); ok {
			return applyAnswer(r.call, response, entry.Response.DeepCopyObject())
		}
	}
	answer, ignored, err := c.call(ctx, gvh, r, request)
	if answer != nil {
		if err := applyAnswer(r.call, response, answer); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if options.WithCaching && !ignored && !blocks(answer) {
		options.Cache.Add(runtimeclient.CallExtensionCacheEntry{CacheKey: key, Response: deepCopy(answer)})
	}
	return nil
}

// checkTypes returns the hook's version, if request and response are of its types.
func (c *Client) checkTypes(hook runtimecatalog.Hook, request, response runtime.Object) (runtimecatalog.GroupVersionHook, error) {
	gvh, err := c.catalog.GroupVersionHook(hook)
	if err != nil {
		return gvh, fmt.Errorf("calling a hook: %w", err)
	}
	if err := c.catalog.ValidateRequest(gvh, request); err != nil {
		return gvh, fmt.Errorf("calling hook %s: %w", gvh.Hook, err)
	}
	if err := c.catalog.ValidateResponse(gvh, response); err != nil {
		return gvh, fmt.Errorf("calling hook %s: %w", gvh.Hook, err)
	}
	return gvh, nil
}

// matching returns the handlers for a hook whose selector selects a namespace, sorted by name, or else the fallback. It waits for
// the registered extensions to be known: before, the fallback could take the place of one of them.
func (c *Client) matching(ctx context.Context, hook runtimecatalog.GroupVersionHook, namespace string) ([]registration, error) {
	all, ready := c.registry.list(hook.GroupHook())
	if !ready {
		return nil, &NotReadyError{Doing: "finding the extensions for hook " + hook.Hook}
	}
	var found []registration
	for _, r := range all {
		ok, err := c.selects(ctx, r, namespace)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, r)
		}
	}
	if fallback, ok := c.fallback[hook.GroupHook()]; ok && len(found) == 0 {
		return []registration{fallback}, nil
	}
	return found, nil
}

// registered returns the handler with a name, if it is one for the hook and the namespace.
func (c *Client) registered(ctx context.Context, hook runtimecatalog.GroupVersionHook, name, namespace string) (registration, error) {
	r, ok, ready := c.registry.get(name)
	if !ready {
		return r, &NotReadyError{Doing: fmt.Sprintf("calling hook %s of extension %s", hook.Hook, quote(name))}
	}
	if fallback, serves := c.fallback[hook.GroupHook()]; serves && !ok && name == fallback.call.Extension() {
		return c.unlessRegistered(ctx, hook, namespace, fallback)
	}
	if !ok {
		handler, config, _ := strings.Cut(name, ".")
		return r, &NotRegisteredError{
			Call:   Call{Hook: hook.Hook, Handler: handler, ExtensionConfig: config},
			Detail: "no such extension is registered",
			Remedy: "see whether this ExtensionConfig is there, whether its condition Discovered is True, and which handlers its status lists",
		}
	}
	if r.served.GroupHook() != hook.GroupHook() {
		return r, &NotRegisteredError{
			Call:   Call{Hook: hook.Hook, Handler: r.call.Handler, ExtensionConfig: r.call.ExtensionConfig},
			Detail: "this handler serves hook " + r.served.Hook, Remedy: "name one that serves this hook; the status of the ExtensionConfig lists them",
		}
	}
	ok, err := c.selects(ctx, r, namespace)
	if err != nil {
		return r, err
	}
	if !ok {
		return r, &NotRegisteredError{
			Call: r.call, Detail: fmt.Sprintf("it is not for namespace %q", namespace),
			Remedy: "label the namespace as spec.namespaceSelector of the ExtensionConfig asks, or widen the selector",
		}
	}
	return r, nil
}

// unlessRegistered returns the fallback for a hook, if no registered extension is for the namespace.
func (c *Client) unlessRegistered(
	ctx context.Context, hook runtimecatalog.GroupVersionHook, namespace string, fallback registration,
) (registration, error) {
	found, err := c.matching(ctx, hook, namespace)
	if err != nil {
		return registration{}, err
	}
	if found[0].call != fallback.call {
		return registration{}, &NotRegisteredError{
			Call: fallback.call, Detail: fmt.Sprintf("extension %s serves namespace %q", quote(found[0].call.Extension()), namespace),
			Remedy: "call that one",
		}
	}
	return fallback, nil
}

// selects reports whether a handler is for the objects of a namespace.
func (c *Client) selects(ctx context.Context, r registration, namespace string) (bool, error) {
	if r.selector.Empty() {
		return true, nil
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.namespaces.Get(ctx, client.ObjectKey{Name: namespace}, found); err != nil {
		return false, fmt.Errorf("%s: reading namespace %q for the namespace selector: %w", r.call, namespace, err)
	}
	return r.selector.Matches(labels.Set(found.Labels)), nil
}

// computeRequest returns a copy of a request with the settings of an ExtensionConfig in it; its own go before them.
func computeRequest(request runtimehooksv1.RequestObject, settings map[string]string) runtimehooksv1.RequestObject {
	request = deepCopy(request)
	merged := maps.Clone(settings)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, request.GetSettings())
	request.SetSettings(merged)
	return request
}

// applyAggregate makes one response of those of several extensions, all of which are Success.
func applyAggregate(response runtimehooksv1.ResponseObject, answers []runtimehooksv1.ResponseObject) {
	var messages []string
	lowest := int32(0)
	for _, a := range answers {
		if retry, ok := a.(runtimehooksv1.RetryResponseObject); ok && retry.GetRetryAfterSeconds() != 0 &&
			(lowest == 0 || retry.GetRetryAfterSeconds() < lowest) {
			lowest = retry.GetRetryAfterSeconds()
		}
		if a.GetMessage() != "" {
			messages = append(messages, a.GetMessage())
		}
	}
	response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	response.SetMessage(strings.Join(messages, ", "))
	if retry, ok := response.(runtimehooksv1.RetryResponseObject); ok {
		retry.SetRetryAfterSeconds(lowest)
	}
}

// applyAnswer makes a response what an extension answered.
func applyAnswer(call Call, response runtimehooksv1.ResponseObject, answer runtime.Object) error {
	to, from := reflect.ValueOf(response), reflect.ValueOf(answer)
	if to.Type() != from.Type() {
		return fmt.Errorf("%s: the answer is a %T, and the caller wants a %T; a cache is shared by calls with different responses", call, answer, response)
	}
	to.Elem().Set(from.Elem())
	return nil
}

func blocks(answer runtimehooksv1.ResponseObject) bool {
	retry, ok := answer.(runtimehooksv1.RetryResponseObject)
	return ok && retry.GetRetryAfterSeconds() != 0
}

func deepCopy[T runtime.Object](object T) T {
	// DeepCopyObject returns what it was called on.
	copied, _ := object.DeepCopyObject().(T)
	return copied
}
