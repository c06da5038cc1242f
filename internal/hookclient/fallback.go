package hookclient

import (
	"fmt"
	"net/url"

	"k8s.io/apimachinery/pkg/labels"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
)

// newFallback returns the registration of each of these handlers, by its hook. None belongs to an
// ExtensionConfig, so each has no settings, is for all namespaces, and its failure policy is Fail.
func newFallback(
	catalog *runtimecatalog.Catalog, handlers []server.ExtensionHandler,
) (map[runtimecatalog.GroupHook]registration, error) {
	if len(handlers) == 0 {
		return nil, nil
	}
	l, err := newLocal(catalog, handlers)
	if err != nil {
		return nil, err
	}
	conn := &connection{local: l, base: &url.URL{Host: inProcess}}
	fallback := map[runtimecatalog.GroupHook]registration{}
	for _, h := range handlers {
		gvh, err := catalog.GroupVersionHook(h.Hook)
		if err != nil {
			return nil, fmt.Errorf("handler %q: %w", h.Name, err)
		}
		if other, ok := fallback[gvh.GroupHook()]; ok {
			return nil, fmt.Errorf("handlers %q and %q both serve hook %s", other.call.Handler, h.Name, gvh.Hook)
		}
		timeout := defaultTimeout
		if h.TimeoutSeconds != nil {
			timeout = computeTimeout(*h.TimeoutSeconds)
		}
		fallback[gvh.GroupHook()] = registration{
			call: Call{Hook: gvh.Hook, Handler: h.Name, Fallback: true}, served: gvh, timeout: timeout,
			policy: runtimev1.FailurePolicyFail, selector: labels.Everything(), connection: conn,
		}
	}
	return fallback, nil
}
