package hookclient

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// singletons are the hooks for which Cluster API's machine controllers refuse to work where a second extension is registered.
var singletons = []any{runtimehooksv1.CanUpdateMachine, runtimehooksv1.CanUpdateMachineSet, runtimehooksv1.UpdateMachine}

// Conflict is a hook with more extensions than Cluster API can use.
type Conflict struct {
	// Hook is the hook's name.
	Hook string
	// Extensions are the names of those that are in each other's way, sorted; at least two.
	Extensions []string
}

func (c Conflict) String() string {
	return fmt.Sprintf("hook %s has %d extensions (%s), and Cluster API uses only one. Fix: keep one of them, and register the others as Updater objects",
		c.Hook, len(c.Extensions), strings.Join(c.Extensions, ", "))
}

// Conflicts returns the hooks for updates in place for which more than one extension is registered whose namespace selectors select the same
// existing namespace, sorted by hook. In such a namespace no machine is updated.
func (c *Client) Conflicts(ctx context.Context) ([]Conflict, error) {
	var conflicts []Conflict
	var namespaces []labels.Set
	for _, hook := range singletons {
		gvh, err := c.catalog.GroupVersionHook(hook)
		if err != nil {
			return nil, fmt.Errorf("looking for conflicts between extensions: %w", err)
		}
		all, ready := c.registry.list(gvh.GroupHook())
		if !ready {
			return nil, &NotReadyError{Doing: "looking for conflicts between extensions"}
		}
		if len(all) < 2 {
			continue
		}
		if namespaces == nil {
			if namespaces, err = c.listNamespaces(ctx); err != nil {
				return nil, err
			}
		}
		if names := computeOverlap(all, namespaces); len(names) > 0 {
			conflicts = append(conflicts, Conflict{Hook: gvh.Hook, Extensions: names})
		}
	}
	return conflicts, nil
}

func (c *Client) listNamespaces(ctx context.Context) ([]labels.Set, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := c.namespaces.List(ctx, list); err != nil {
		return nil, fmt.Errorf("looking for conflicts between extensions: listing namespaces: %w", err)
	}
	found := make([]labels.Set, 0, len(list.Items))
	for _, n := range list.Items {
		found = append(found, n.Labels)
	}
	return found, nil
}

// computeOverlap returns the names of handlers that are for a namespace that another one is for as well, sorted.
func computeOverlap(handlers []registration, namespaces []labels.Set) []string {
	var names []string
	for _, namespace := range namespaces {
		var here []string
		for _, h := range handlers {
			if h.selector.Matches(namespace) {
				here = append(here, h.call.Extension())
			}
		}
		if len(here) > 1 {
			names = append(names, here...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
