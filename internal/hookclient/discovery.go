package hookclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Discover asks an extension which handlers it has, and returns a copy of its ExtensionConfig with them in the status, sorted by name and with defaults
// filled in. The failure policy in the status is the one that holds: Ignore becomes Fail for hooks that it must not apply to, so
// that other processes, which read it there, do not ignore either.
func (c *Client) Discover(ctx context.Context, config *runtimev1.ExtensionConfig) (*runtimev1.ExtensionConfig, error) {
	if config == nil {
		return nil, errors.New("discovering the handlers of an ExtensionConfig: none was given")
	}
	hook, err := c.catalog.GroupVersionHook(runtimehooksv1.Discovery)
	if err != nil {
		return nil, fmt.Errorf("discovering the handlers of ExtensionConfig %q: %w", config.Name, err)
	}
	conn, err := c.connect(config)
	if err != nil {
		return nil, err
	}
	to := registration{
		call: Call{Hook: hook.Hook, ExtensionConfig: config.Name}, served: hook, timeout: defaultTimeout, policy: runtimev1.FailurePolicyFail, connection: conn,
	}
	answer, _, err := c.call(ctx, hook, to, &runtimehooksv1.DiscoveryRequest{})
	if err != nil {
		return nil, err
	}
	response, ok := answer.(*runtimehooksv1.DiscoveryResponse)
	if !ok {
		return nil, fmt.Errorf("%s: the catalog's response is a %T", to.call, answer)
	}
	handlers, faults := computeHandlers(c.catalog, config.Name, response.Handlers)
	if len(faults) > 0 {
		return nil, &BadResponseError{Call: to.call, StatusCode: 200, Detail: boundMessage(strings.Join(faults, "; ")), understood: true}
	}
	logOverruled(ctx, config, response.Handlers, handlers)
	discovered := config.DeepCopy()
	discovered.Status.Handlers = handlers
	return discovered, nil
}

// computeHandlers turns what an extension says of its handlers into what the status of its ExtensionConfig holds, or says what is wrong with it.
func computeHandlers(catalog *runtimecatalog.Catalog, config string, announced []runtimehooksv1.ExtensionHandler) (handlers []runtimev1.ExtensionHandler, faults []string) {
	seen := map[string]bool{}
	handlers = make([]runtimev1.ExtensionHandler, 0, len(announced))
	for _, a := range announced {
		if seen[a.Name] {
			faults = append(faults, fmt.Sprintf("two handlers have the name %s", quote(a.Name)))
		}
		seen[a.Name] = true
		handler, more := computeHandler(catalog, config, a)
		faults = append(faults, more...)
		handlers = append(handlers, handler)
	}
	slices.SortFunc(handlers, func(a, b runtimev1.ExtensionHandler) int { return strings.Compare(a.Name, b.Name) })
	return handlers, faults
}

func computeHandler(catalog *runtimecatalog.Catalog, config string, a runtimehooksv1.ExtensionHandler) (handler runtimev1.ExtensionHandler, faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, "handler "+quote(a.Name)+" "+fmt.Sprintf(format, args...))
	}
	if problems := validation.IsDNS1123Label(a.Name); len(problems) > 0 {
		fault("has a name that is no DNS label (RFC 1123)")
	}
	timeout := int32(runtimehooksv1.DefaultHandlersTimeoutSeconds)
	if a.TimeoutSeconds != nil {
		timeout = *a.TimeoutSeconds
	}
	if timeout < 0 || timeout > int32(maxTimeout.Seconds()) {
		fault("has timeoutSeconds %d; it must be between 0, for the default, and %d", timeout, int32(maxTimeout.Seconds()))
	}
	policy := runtimev1.FailurePolicyFail
	if a.FailurePolicy != nil {
		policy = runtimev1.FailurePolicy(*a.FailurePolicy)
	}
	if policy != runtimev1.FailurePolicyFail && policy != runtimev1.FailurePolicyIgnore {
		fault("has the failurePolicy %s; it must be Fail or Ignore", quote(string(policy)))
	}
	version, err := schema.ParseGroupVersion(a.RequestHook.APIVersion)
	hook := runtimecatalog.GroupVersionHook{Group: version.Group, Version: version.Version, Hook: a.RequestHook.Hook}
	switch {
	case err != nil:
		fault("has the apiVersion %s, which is none", quote(a.RequestHook.APIVersion))
	case !catalog.IsHookRegistered(hook):
		fault("serves hook %s of %s, which is not known here", quote(hook.Hook), quote(a.RequestHook.APIVersion))
	}
	return runtimev1.ExtensionHandler{
		Name:           a.Name + "." + config,
		RequestHook:    runtimev1.GroupVersionHook{APIVersion: a.RequestHook.APIVersion, Hook: a.RequestHook.Hook},
		TimeoutSeconds: timeout,
		FailurePolicy:  computePolicy(hook.GroupHook(), policy),
	}, faults
}

// logOverruled says which handlers asked for Ignore and get Fail, unless the ExtensionConfig's status says so already.
func logOverruled(ctx context.Context, config *runtimev1.ExtensionConfig, announced []runtimehooksv1.ExtensionHandler, handlers []runtimev1.ExtensionHandler) {
	var overruled []string
	for _, h := range handlers {
		asked := slices.ContainsFunc(announced, func(a runtimehooksv1.ExtensionHandler) bool {
			return a.Name+"."+config.Name == h.Name && a.FailurePolicy != nil && *a.FailurePolicy == runtimehooksv1.FailurePolicyIgnore
		})
		if asked && h.FailurePolicy == runtimev1.FailurePolicyFail && !slices.Contains(config.Status.Handlers, h) {
			overruled = append(overruled, h.Name)
		}
	}
	if len(overruled) > 0 {
		ctrl.LoggerFrom(ctx).Info("The failure policy Ignore does not apply to hooks whose answer says what happens to objects; Fail holds for these extensions",
			"extensionConfig", config.Name, "extensions", overruled)
	}
}
