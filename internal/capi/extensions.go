package capi

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// Handler is a handler of a hook, with the ExtensionConfig that registers it.
type Handler struct {
	Extension *runtimev1.ExtensionConfig
	runtimev1.ExtensionHandler
}

// HandlersOf returns the discovered handlers that Cluster API calls at a hook for an object of a namespace
// with these labels, by name. With nil as labels, those are unknown, and every namespaceSelector selects.
func HandlersOf(
	extensions []runtimev1.ExtensionConfig, namespace labels.Set, hook string,
) []Handler {
	var found []Handler
	for i := range extensions {
		e := &extensions[i]
		selector, err := metav1.LabelSelectorAsSelector(e.Spec.NamespaceSelector)
		if e.Spec.NamespaceSelector != nil && err == nil && namespace != nil && !selector.Matches(namespace) {
			continue
		}
		for _, h := range e.Status.Handlers {
			if h.RequestHook.Hook == hook {
				found = append(found, Handler{Extension: e, ExtensionHandler: h})
			}
		}
	}
	slices.SortFunc(found, func(a, b Handler) int { return strings.Compare(a.Name, b.Name) })
	return found
}
