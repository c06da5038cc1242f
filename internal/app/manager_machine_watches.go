package app

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// machineManager is the manager for Cluster API's Machine controller. That controller watches
// MachineSets and MachineDeployments and reconciles all Machines of a group at each event, also when
// only the group's status changed, which every change of a Machine causes: the reconciles grow with
// the square of the group. Here it gets only the updates that it reads, see concernsMachines.
// Informers and stores are those of the manager; there is no second cache.
type machineManager struct{ manager.Manager }

// GetCache returns the manager's cache, whose informers of groups are narrowed.
func (m machineManager) GetCache() cache.Cache { return machineCache{m.Manager.GetCache()} }

// machineCache narrows the informers of groups. Informers of all other kinds are those of the cache,
// which the Machine controller also watches infrastructure machines and bootstrap configs with.
type machineCache struct{ cache.Cache }

// GetInformer returns the cache's informer. That of MachineSets or MachineDeployments calls its
// handlers for an update only if concernsMachines.
func (c machineCache) GetInformer(
	ctx context.Context, object client.Object, options ...cache.InformerGetOption,
) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, object, options...)
	switch object.(type) {
	case *clusterv1.MachineSet, *clusterv1.MachineDeployment:
		if err == nil {
			informer = groupInformer{informer}
		}
	}
	return informer, err //nolint:wrapcheck // It is this method.
}

// groupInformer is an informer whose handlers get only the updates that concern Machines. Additions
// and deletions are passed on. It has no store: the Machine controller waits for no write of a group.
type groupInformer struct{ cache.Informer }

// AddEventHandler adds a handler.
func (i groupInformer) AddEventHandler(
	handler toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandler(groupHandler{handler}) //nolint:wrapcheck // It is this method.
}

// AddEventHandlerWithResyncPeriod adds a handler. Resyncs change nothing, so they are not passed on.
func (i groupInformer) AddEventHandlerWithResyncPeriod(
	handler toolscache.ResourceEventHandler, period time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	//nolint:wrapcheck // It is this method.
	return i.Informer.AddEventHandlerWithResyncPeriod(groupHandler{handler}, period)
}

// AddEventHandlerWithOptions adds a handler.
func (i groupInformer) AddEventHandlerWithOptions(
	handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	//nolint:wrapcheck // It is this method.
	return i.Informer.AddEventHandlerWithOptions(groupHandler{handler}, options)
}

type groupHandler struct {
	toolscache.ResourceEventHandler
}

// OnUpdate passes an update on if it concerns the Machines of the group.
func (h groupHandler) OnUpdate(before, after any) {
	if concernsMachines(before, after) {
		h.ResourceEventHandler.OnUpdate(before, after)
	}
}

// concernsMachines reports whether a change of a MachineSet or MachineDeployment can change what
// Cluster API's Machine controller does with a Machine of it. TestMachineControllerReads pins the
// functions of v1.14.2 from which the list is taken:
//   - the template, and when a rollout is due, for the condition UpToDate;
//   - the revision, for the taint of outdated nodes;
//   - the labels, which name the MachineDeployment of a MachineSet, and which --watch-filter selects by;
//   - the condition Paused, because the controller ignores the events by which a Cluster is paused and
//     resumed: its Machines learn of both from the conditions of their groups;
//   - the identity, and the beginning of a deletion.
//
// It does not read replicas, other annotations and the rest of the status. Objects of other types
// always concern Machines.
func concernsMachines(before, after any) bool {
	switch b := after.(type) {
	case *clusterv1.MachineSet:
		a, ok := before.(*clusterv1.MachineSet)
		return !ok || metadataConcerns(a, b) ||
			pausedChanged(a.Status.Conditions, b.Status.Conditions) ||
			!equality.Semantic.DeepEqual(&a.Spec.Template, &b.Spec.Template)
	case *clusterv1.MachineDeployment:
		a, ok := before.(*clusterv1.MachineDeployment)
		return !ok || metadataConcerns(a, b) ||
			pausedChanged(a.Status.Conditions, b.Status.Conditions) ||
			!a.Spec.Rollout.After.Equal(&b.Spec.Rollout.After) ||
			!equality.Semantic.DeepEqual(&a.Spec.Template, &b.Spec.Template)
	}
	return true
}

func metadataConcerns(a, b client.Object) bool {
	return a.GetUID() != b.GetUID() ||
		a.GetDeletionTimestamp().IsZero() != b.GetDeletionTimestamp().IsZero() ||
		a.GetAnnotations()[clusterv1.RevisionAnnotation] != b.GetAnnotations()[clusterv1.RevisionAnnotation] ||
		!equality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels())
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
