package hookclient

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// The bounds of how long one call may take.
const (
	defaultTimeout = runtimehooksv1.DefaultHandlersTimeoutSeconds * time.Second
	// maxTimeout is the longest that Discovery accepts. A longer one in a status was written by hand.
	maxTimeout = 30 * time.Second
)

// registration is one handler of an ExtensionConfig. It is immutable.
type registration struct {
	// call names the handler.
	call Call
	// served is the hook, at the version that the extension serves.
	served   runtimecatalog.GroupVersionHook
	timeout  time.Duration
	policy   runtimev1.FailurePolicy
	selector labels.Selector
	settings map[string]string
	// resourceVersion is that of the ExtensionConfig.
	resourceVersion string
	connection      *connection
}

// registry is what is registered. The zero value is empty and not ready. It is safe for concurrent use.
type registry struct {
	mu    sync.RWMutex
	ready bool
	// configs are the handlers of every ExtensionConfig by its name, sorted by theirs.
	configs map[string][]registration
}

// warmUp makes the registry ready, with everything that was there at the start.
func (r *registry) warmUp(configs map[string][]registration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ready {
		return errors.New("the extensions were loaded before; register further ones one by one")
	}
	r.configs, r.ready = configs, true
	return nil
}

func (r *registry) isReady() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.ready
}

// replace puts the handlers of an ExtensionConfig in the place of those that it had, and returns the latter.
func (r *registry) replace(name string, handlers []registration) (previous []registration, ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ready {
		return nil, false
	}
	previous = r.configs[name]
	if len(handlers) == 0 {
		delete(r.configs, name)
	} else {
		r.configs[name] = handlers
	}
	return previous, true
}

// list returns all handlers for a hook, at whichever version, sorted by name.
func (r *registry) list(hook runtimecatalog.GroupHook) (found []registration, ready bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, handlers := range r.configs {
		for _, h := range handlers {
			if h.served.GroupHook() == hook {
				found = append(found, h)
			}
		}
	}
	slices.SortFunc(found, compareNames)
	return found, r.ready
}

// get returns the handler that is registered under a name.
func (r *registry) get(extension string) (found registration, ok, ready bool) {
	_, config, _ := strings.Cut(extension, ".")
	r.mu.RLock()
	defer r.mu.RUnlock()
	handlers := r.configs[config]
	i := slices.IndexFunc(handlers, func(h registration) bool { return h.call.Extension() == extension })
	if i < 0 {
		return registration{}, false, r.ready
	}
	return handlers[i], true, r.ready
}

func compareNames(a, b registration) int {
	return strings.Compare(a.call.Extension(), b.call.Extension())
}

// computeRegistrations parses what Discovery wrote into an ExtensionConfig's status. Errors are *MisconfiguredError.
func computeRegistrations(config *runtimev1.ExtensionConfig, conn *connection) ([]registration, error) {
	selector := labels.Everything()
	if config.Spec.NamespaceSelector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(config.Spec.NamespaceSelector); err != nil {
			return nil, &MisconfiguredError{
				ExtensionConfig: config.Name, Field: "spec.namespaceSelector", Detail: "is no label selector: " + boundMessage(err.Error()), Remedy: "correct it",
			}
		}
	}
	handlers := make([]registration, 0, len(config.Status.Handlers))
	for i, h := range config.Status.Handlers {
		name, ours := strings.CutSuffix(h.Name, "."+config.Name)
		version, err := schema.ParseGroupVersion(h.RequestHook.APIVersion)
		if err != nil || !ours || name == "" {
			return nil, &MisconfiguredError{
				ExtensionConfig: config.Name, Field: fmt.Sprintf("status.handlers[%d]", i),
				Detail: fmt.Sprintf("is not what Discovery writes: name %s, apiVersion %s", quote(h.Name), quote(h.RequestHook.APIVersion)),
				Remedy: "let it be discovered again, by changing the ExtensionConfig or restarting the manager",
			}
		}
		handlers = append(handlers, registration{
			call:            Call{Hook: h.RequestHook.Hook, Handler: name, ExtensionConfig: config.Name},
			served:          runtimecatalog.GroupVersionHook{Group: version.Group, Version: version.Version, Hook: h.RequestHook.Hook},
			timeout:         computeTimeout(h.TimeoutSeconds),
			policy:          h.FailurePolicy,
			selector:        selector,
			settings:        maps.Clone(config.Spec.Settings),
			resourceVersion: config.ResourceVersion,
			connection:      conn,
		})
	}
	slices.SortFunc(handlers, compareNames)
	return handlers, nil
}

func computeTimeout(seconds int32) time.Duration {
	if seconds <= 0 {
		return defaultTimeout
	}
	return min(time.Duration(seconds)*time.Second, maxTimeout)
}
