package app

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windlass-dev/windlass/internal/pool"
)

// machineManager is the manager for Cluster API's Machine controller. That controller watches
// MachineSets and MachineDeployments and reconciles all Machines of a group at each event, also when
// only the group's status changed, which every change of a Machine causes: the reconciles grow with
// the square of the group. It also leaves a second between two reconciles of a Machine, so that a
// step of a move keeps it from the update that follows. Here it gets only the updates that it reads,
// and updates that begin a move or belong to one a little later, see urgencyOf. Informers and stores
// are those of the manager; there is no second cache.
type machineManager struct {
	manager.Manager
	// later calls a function after some time.
	later func(time.Duration, func())
}

func newMachineManager(m manager.Manager) machineManager {
	return machineManager{m, func(d time.Duration, f func()) { time.AfterFunc(d, f) }}
}

// GetCache returns the manager's cache, whose informers are narrowed.
func (m machineManager) GetCache() cache.Cache { return machineCache{m.Manager.GetCache(), m.later} }

// machineCache narrows the informers of Machines, their groups, and their infrastructure and
// bootstrap configs, which are unstructured.
type machineCache struct {
	cache.Cache
	later func(time.Duration, func())
}

// GetInformer returns the cache's informer, with handlers that get updates by their urgency.
func (c machineCache) GetInformer(
	ctx context.Context, object client.Object, options ...cache.InformerGetOption,
) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, object, options...)
	switch object.(type) {
	case *clusterv1.Machine, *clusterv1.MachineSet, *clusterv1.MachineDeployment,
		*unstructured.Unstructured:
		if err == nil {
			informer = machineInformer{informer, c.later}
		}
	}
	return informer, err //nolint:wrapcheck // It is this method.
}

// machineInformer is an informer whose handlers get updates by their urgency. Additions and
// deletions are passed on. It has no store: the Machine controller waits for no write of these kinds.
type machineInformer struct {
	cache.Informer
	later func(time.Duration, func())
}

// AddEventHandler adds a handler.
func (i machineInformer) AddEventHandler(
	handler toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	//nolint:wrapcheck // It is this method.
	return i.Informer.AddEventHandler(machineHandler{handler, i.later})
}

// AddEventHandlerWithResyncPeriod adds a handler.
func (i machineInformer) AddEventHandlerWithResyncPeriod(
	handler toolscache.ResourceEventHandler, period time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	//nolint:wrapcheck // It is this method.
	return i.Informer.AddEventHandlerWithResyncPeriod(machineHandler{handler, i.later}, period)
}

// AddEventHandlerWithOptions adds a handler.
func (i machineInformer) AddEventHandlerWithOptions(
	handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	//nolint:wrapcheck // It is this method.
	return i.Informer.AddEventHandlerWithOptions(machineHandler{handler, i.later}, options)
}

type machineHandler struct {
	toolscache.ResourceEventHandler
	later func(time.Duration, func())
}

// OnUpdate passes an update on at once, later, or never.
func (h machineHandler) OnUpdate(before, after any) {
	switch urgencyOf(before, after) {
	case now:
		h.ResourceEventHandler.OnUpdate(before, after)
	case soon:
		h.later(eventDelay, func() { h.ResourceEventHandler.OnUpdate(before, after) })
	case never:
	}
}

// eventDelay is longer than the time from the change of a MachineDeployment to the first update in
// place of a Machine.
const eventDelay = 2 * time.Second

// urgency tells when the Machine controller has to look at Machines after an update.
type urgency int

const (
	never urgency = iota
	// soon is after eventDelay. Until then the update shows in conditions of Machines only.
	soon
	now
)

// urgencyOf is now for objects of other types, too.
func urgencyOf(before, after any) urgency {
	switch b := after.(type) {
	case *clusterv1.MachineSet, *clusterv1.MachineDeployment:
		return groupUrgency(before, after)
	case *clusterv1.Machine:
		// Nothing is to be done for the Machine until its MachineSet starts the update.
		if b.DeletionTimestamp.IsZero() && pool.AwaitsUpdate(b) {
			return soon
		}
	case *unstructured.Unstructured:
		a, ok := before.(*unstructured.Unstructured)
		if ok && !isExternalUrgent(a.Object, b.Object) {
			return soon
		}
	}
	return now
}

// isExternalUrgent reports whether the update of an infrastructure machine or a bootstrap config can
// change what the Machine controller does: labels and annotations cannot, and neither can the spec
// of an object that is marked for an update in place, because that is part of a move.
func isExternalUrgent(before, after map[string]any) bool {
	changed := func(path ...string) bool {
		a, _, _ := unstructured.NestedFieldNoCopy(before, path...) //nolint:errcheck // An object has such fields or none.
		b, _, _ := unstructured.NestedFieldNoCopy(after, path...)  //nolint:errcheck // see above
		return !equality.Semantic.DeepEqual(a, b)
	}
	_, marked, _ := unstructured.NestedFieldNoCopy( //nolint:errcheck // see above
		after, "metadata", "annotations", clusterv1.UpdateInProgressAnnotation)
	return changed("status") || changed("metadata", "deletionTimestamp") ||
		changed("metadata", "ownerReferences") || !marked && changed("spec")
}

// groupUrgency tells when a change of a MachineSet or MachineDeployment can change what Cluster API's
// Machine controller does with a Machine of it. TestMachineControllerReads pins the functions of
// v1.14.2 from which the list is taken:
//   - the template, and when a rollout is due, for the condition UpToDate;
//   - the revision, for the taint of outdated nodes;
//   - the labels, which name the MachineDeployment of a MachineSet, and which --watch-filter selects by;
//   - the condition Paused, because the controller ignores the events by which a Cluster is paused and
//     resumed: its Machines learn of both from the conditions of their groups;
//   - the identity, and the beginning of a deletion.
//
// It does not read replicas, other annotations and the rest of the status. A change of a
// MachineDeployment that begins a rollout is passed on after the first Machines have moved.
func groupUrgency(before, after any) urgency {
	switch b := after.(type) {
	case *clusterv1.MachineSet:
		a, ok := before.(*clusterv1.MachineSet)
		if !ok || metadataConcerns(a, b) || revisionChanged(a, b) ||
			pausedChanged(a.Status.Conditions, b.Status.Conditions) ||
			!equality.Semantic.DeepEqual(&a.Spec.Template, &b.Spec.Template) {
			return now
		}
	case *clusterv1.MachineDeployment:
		a, ok := before.(*clusterv1.MachineDeployment)
		switch {
		case !ok || metadataConcerns(a, b) ||
			pausedChanged(a.Status.Conditions, b.Status.Conditions):
			return now
		case revisionChanged(a, b) || !a.Spec.Rollout.After.Equal(&b.Spec.Rollout.After) ||
			!equality.Semantic.DeepEqual(&a.Spec.Template, &b.Spec.Template):
			return soon
		}
	}
	return never
}

func metadataConcerns(a, b client.Object) bool {
	return a.GetUID() != b.GetUID() ||
		a.GetDeletionTimestamp().IsZero() != b.GetDeletionTimestamp().IsZero() ||
		!equality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels())
}

func revisionChanged(a, b client.Object) bool {
	return a.GetAnnotations()[clusterv1.RevisionAnnotation] !=
		b.GetAnnotations()[clusterv1.RevisionAnnotation]
}

// pausedChanged compares the condition Paused. While a group is paused by itself, only the message
// tells that its Cluster is paused, too.
func pausedChanged(before, after []metav1.Condition) bool {
	a := meta.FindStatusCondition(before, clusterv1.PausedCondition)
	b := meta.FindStatusCondition(after, clusterv1.PausedCondition)
	if a == nil || b == nil {
		return a != b
	}
	return a.Status != b.Status || a.Message != b.Message
}
