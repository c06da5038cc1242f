package controllers

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/contract"
)

// watchGroup begins to watch the metadata of a kind of groups, once. If a tenant chose the kind,
// Kinds.Check must have returned nil for it.
func (c *controllers) watchGroup(gvk schema.GroupVersionKind) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.kinds[gvk.GroupKind()]; ok {
		return nil
	}
	toGroup := func(_ context.Context, object client.Object) []AnnotatedGroup {
		return []AnnotatedGroup{{Kind: gvk, Key: client.ObjectKeyFromObject(object)}}
	}
	if err := c.groups.Watch(source.TypedKind[client.Object](c.cache, capi.MetadataOf(gvk), handler.TypedEnqueueRequestsFromMapFunc(toGroup), c.filtered(), c.asked())); err != nil {
		return fmt.Errorf("watching %s: %w", gvk.GroupKind(), err)
	}
	c.kinds[gvk.GroupKind()] = gvk
	return nil
}

// watchMembers has the group of a Machine looked at when something has changed about the Machine that a group is upgraded by.
func (c *controllers) watchMembers() error {
	machines := capi.MetadataOf(clusterv1.GroupVersion.WithKind("Machine"))
	if err := c.groups.Watch(source.TypedKind[client.Object](c.cache, machines, handler.TypedEnqueueRequestsFromMapFunc(c.groupOf), c.filtered(), c.joinedOrChanged())); err != nil {
		return fmt.Errorf("watching Machines: %w", err)
	}
	return nil
}

// groupOf returns the group of a Machine, if something is asked of it. A kind that is not watched yet is looked at when it is.
func (c *controllers) groupOf(ctx context.Context, m client.Object) []AnnotatedGroup {
	owner, ok := capi.OwnerOf(m)
	if !ok || !owner.IsMachineDeployment() && !capi.IsControlPlane(m) {
		return nil
	}
	gvk, watched := c.watched(owner.GroupKind())
	if !watched {
		return nil
	}
	object := capi.MetadataOf(gvk)
	// This runs in the informer of Machines: a cache that does not sync must not stop the events of all Machines.
	ctx, cancel := context.WithTimeout(ctx, contract.ReadTimeout)
	defer cancel()
	if err := c.Client.Get(ctx, owner.NamespacedName, object); err != nil {
		if !apierrors.IsNotFound(err) && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Reading the group of a Machine", "kind", gvk.Kind, "group", owner.NamespacedName.String())
		}
		return nil
	}
	if !c.Keys.AsksGroup(object.Annotations) {
		return nil
	}
	return []AnnotatedGroup{{Kind: gvk, Key: owner.NamespacedName}}
}

// filtered lets objects pass that the watch filter selects.
func (c *controllers) filtered() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool {
		return c.WatchFilter == "" || object.GetLabels()[clusterv1.WatchLabel] == c.WatchFilter
	})
}

// marked lets Machines pass that are, or were until now, asked to be upgraded, when something changes about that. When a process starts, any Machine of a
// control plane may hold the lock.
func (c *controllers) marked() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			return capi.IsControlPlane(e.Object) || c.Keys.Marked(e.Object.GetAnnotations())
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			return c.changed(e) && (c.Keys.Marked(e.ObjectOld.GetAnnotations()) || c.Keys.Marked(e.ObjectNew.GetAnnotations()))
		},
		DeleteFunc: func(e event.DeleteEvent) bool { return c.Keys.Marked(e.Object.GetAnnotations()) },
	}
}

// asked lets groups pass of which something is, or was until now, asked, when something changes that it depends on.
func (c *controllers) asked() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return c.Keys.AsksGroup(e.Object.GetAnnotations()) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			changed := c.changed(e) || e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration()
			return changed && (c.Keys.AsksGroup(e.ObjectOld.GetAnnotations()) || c.Keys.AsksGroup(e.ObjectNew.GetAnnotations()))
		},
		DeleteFunc: func(e event.DeleteEvent) bool { return c.Keys.AsksGroup(e.Object.GetAnnotations()) },
	}
}

// joinedOrChanged lets Machines pass that come, go, or begin or end their upgrade.
func (c *controllers) joinedOrChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return differs(e, c.Keys.SameForGroup) }}
}

// changed reports whether something has changed that is about upgrades, or that the object began to be deleted. Updates without any change, of which
// there is one for each object from time to time, count as well.
func (c *controllers) changed(e event.UpdateEvent) bool { return differs(e, c.Keys.Same) }

func differs(e event.UpdateEvent, same func(before, after map[string]string) bool) bool {
	return e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() ||
		!same(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) ||
		e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
}
