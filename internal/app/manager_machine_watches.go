package app

import (
	"context"
	"slices"
	"sync"
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

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/pool"
)

// eventManager is a manager for one of Cluster API's controllers, which gets fewer events.
// Informers and stores are those of the manager; there is no second cache.
type eventManager struct {
	manager.Manager
	rules eventRules
}

// eventRules say which events a controller gets.
type eventRules struct {
	// settling is how much later an addition comes, unless an urgent update of the same object comes
	// first; nil for at once.
	settling func(added any) time.Duration
	// urgency of an update.
	urgency func(before, after any) urgency
	// delay is how much later an update comes that is urgent soon. key names what it enqueues: an
	// update with the same key and delay that is urgent soon adds nothing meanwhile.
	delay func(before, after any) time.Duration
	key   func(after any) string
	// later calls a function after some time.
	later func(time.Duration, func())
}

func afterFunc(d time.Duration, f func()) { time.AfterFunc(d, f) }

// GetCache returns the manager's cache, whose informers are narrowed.
func (m eventManager) GetCache() cache.Cache { return eventCache{m.Manager.GetCache(), m.rules} }

type eventCache struct {
	cache.Cache
	rules eventRules
}

// GetInformer returns the cache's informer, with handlers that get updates by their urgency.
func (c eventCache) GetInformer(
	ctx context.Context, object client.Object, options ...cache.InformerGetOption,
) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, object, options...)
	if err != nil {
		return nil, err //nolint:wrapcheck // It is this method.
	}
	return eventInformer{informer, c.rules}, nil
}

// eventInformer is an informer whose handlers get updates by their urgency. Additions may settle
// first. Deletions are passed on. It has no store: the controllers of eventManagers wait for no writes.
type eventInformer struct {
	cache.Informer
	rules eventRules
}

// AddEventHandler adds a handler.
func (i eventInformer) AddEventHandler(
	handler toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandler(i.rules.narrow(handler)) //nolint:wrapcheck // It is this method.
}

// AddEventHandlerWithResyncPeriod adds a handler.
func (i eventInformer) AddEventHandlerWithResyncPeriod(
	handler toolscache.ResourceEventHandler, period time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	//nolint:wrapcheck // It is this method.
	return i.Informer.AddEventHandlerWithResyncPeriod(i.rules.narrow(handler), period)
}

// AddEventHandlerWithOptions adds a handler.
func (i eventInformer) AddEventHandlerWithOptions(
	handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	//nolint:wrapcheck // It is this method.
	return i.Informer.AddEventHandlerWithOptions(i.rules.narrow(handler), options)
}

func (e eventRules) narrow(
	handler toolscache.ResourceEventHandler,
) toolscache.ResourceEventHandler {
	return &eventHandler{ResourceEventHandler: handler, rules: e}
}

type eventHandler struct {
	toolscache.ResourceEventHandler
	rules eventRules
	// waiting has the updates that come later, as delayed, and settling the keys of additions.
	waiting, settling sync.Map
}

type delayed struct {
	key   string
	delay time.Duration
}

// OnAdd passes an addition on at once, or later if no update was passed on until then.
func (h *eventHandler) OnAdd(added any, initially bool) {
	delay := time.Duration(0)
	if h.rules.settling != nil && !initially {
		delay = h.rules.settling(added)
	}
	if delay == 0 {
		h.ResourceEventHandler.OnAdd(added, initially)
		return
	}
	key := keyOf(added)
	h.settling.Store(key, true)
	h.rules.later(delay, func() {
		if _, settles := h.settling.LoadAndDelete(key); settles {
			h.ResourceEventHandler.OnAdd(added, initially)
		}
	})
}

// OnUpdate passes an update on at once, later, or never.
func (h *eventHandler) OnUpdate(before, after any) {
	switch h.rules.urgency(before, after) {
	case now:
		h.settling.Delete(keyOf(after))
		h.ResourceEventHandler.OnUpdate(before, after)
	case soon:
		delay := h.rules.delay(before, after)
		update := delayed{h.rules.key(after), delay}
		if _, waits := h.waiting.LoadOrStore(update, true); waits {
			return
		}
		h.rules.later(delay, func() {
			h.waiting.Delete(update)
			h.ResourceEventHandler.OnUpdate(before, after)
		})
	case never:
	}
}

// urgency tells when a controller has to reconcile after an update.
type urgency int

const (
	never urgency = iota
	// soon is after a delay. Until then the update shows only in conditions.
	soon
	now
)

// machineEvents are those for Cluster API's Machine controller. It watches MachineSets and
// MachineDeployments and reconciles all Machines of a group at each event, also when only the
// group's status changed, which every change of a Machine causes: the reconciles grow with the
// square of the group. It also leaves a second between two reconciles of a Machine, so that an event
// of a move keeps it from the update that follows.
func machineEvents() eventRules {
	return eventRules{
		settling: machineSettling, urgency: machineUrgency, delay: machineDelay, key: keyOf,
		later: afterFunc,
	}
}

const (
	// rolloutDelay is longer than the time from the change of a MachineDeployment to the first
	// update in place of a Machine. It is also how late an update may begin because the cache has
	// shown the pending hook before the mark on the infrastructure.
	rolloutDelay = 2 * time.Second
	// pausedDelay is longer than the time from the creation of a Machine to its condition Paused.
	pausedDelay = 500 * time.Millisecond
	// moveDelay is longer than most moves. The pending hook, which ends a move, is urgent.
	moveDelay = statusInterval
	// ownDelay is for what the Machine controller wrote itself. It reads that only to find out that
	// nothing is left to write.
	ownDelay = statusInterval
)

// machineSettling waits for the MachineSet to write the condition Paused of a new Machine: without
// it the controller would only write it, and leave a second until it sets owners.
func machineSettling(added any) time.Duration {
	m, ok := added.(*clusterv1.Machine)
	if !ok || meta.FindStatusCondition(m.Status.Conditions, clusterv1.PausedCondition) != nil {
		return 0
	}
	owner := metav1.GetControllerOfNoCopy(m)
	if owner == nil || owner.Kind != capi.MachineSetKind.Kind {
		return 0
	}
	return pausedDelay
}

func machineDelay(before, after any) time.Duration {
	b, ok := after.(*clusterv1.Machine)
	if !ok {
		return rolloutDelay
	}
	if moves(b) {
		return moveDelay
	}
	a, ok := before.(*clusterv1.Machine)
	if ok && equality.Semantic.DeepEqual(foreign(a.Status.Conditions), foreign(b.Status.Conditions)) {
		return ownDelay
	}
	return rolloutDelay
}

// ownConditions are conditions of a Machine that nobody but the Machine controller writes.
var ownConditions = []string{
	clusterv1.MachineBootstrapConfigReadyCondition, clusterv1.MachineInfrastructureReadyCondition,
	clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition,
	clusterv1.MachineDeletingCondition, clusterv1.MachineUpdatingCondition,
	clusterv1.MachineReadyCondition, clusterv1.MachineAvailableCondition,
}

// foreign returns the conditions that others write, which Ready sums up.
func foreign(conditions []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c metav1.Condition) bool {
		return slices.Contains(ownConditions, c.Type)
	})
}

func keyOf(o any) string {
	object, ok := o.(client.Object)
	if !ok {
		return ""
	}
	return client.ObjectKeyFromObject(object).String()
}

// moves reports whether a Machine waits until its MachineSet starts the update. Until then nothing is
// to be done for it.
func moves(m *clusterv1.Machine) bool {
	return m.DeletionTimestamp.IsZero() && pool.AwaitsUpdate(m)
}

// machineUrgency is now for objects of other types, too. The status of a Machine is the controller's
// own but for conditions of others, which it only sums up. It waits for the event of its own write
// after a change of the condition Paused alone.
func machineUrgency(before, after any) urgency {
	switch b := after.(type) {
	case *clusterv1.MachineSet, *clusterv1.MachineDeployment:
		return groupUrgency(before, after)
	case *clusterv1.Machine:
		a, ok := before.(*clusterv1.Machine)
		if moves(b) || ok && a.ResourceVersion != b.ResourceVersion && sameMetadata(a, b) &&
			!pausedChanged(a.Status.Conditions, b.Status.Conditions) {
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
// change what the Machine controller does: labels, annotations and conditions other than Ready
// cannot, and neither can the spec of an object that is marked for an update in place, because that
// is part of a move. The words of the condition Ready are only mirrored. For an object in deletion
// the controller waits until it is gone, which is no update.
func isExternalUrgent(before, after map[string]any) bool {
	changed := func(path ...string) bool {
		return !equality.Semantic.DeepEqual(nested(before, path...), nested(after, path...))
	}
	if nested(after, "metadata", "deletionTimestamp") != nil {
		return false
	}
	mark := nested(after, "metadata", "annotations", clusterv1.UpdateInProgressAnnotation)
	return changed("metadata", "ownerReferences") || mark == nil && changed("spec") ||
		!equality.Semantic.DeepEqual(essential(before["status"]), essential(after["status"]))
}

// essential returns a status with nothing of its conditions but the status of Ready. The contracts
// of Cluster API have conditions at three places.
func essential(status any) any {
	fields, ok := status.(map[string]any)
	if !ok {
		return status
	}
	out := make(map[string]any, len(fields))
	for key, value := range fields {
		switch key {
		case "conditions":
			value = readyStatus(value)
		case "deprecated", "v1beta1", "v1beta2":
			value = essential(value)
		}
		if value != nil {
			out[key] = value
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func readyStatus(conditions any) any {
	list, _ := conditions.([]any)
	for _, c := range list {
		if fields, ok := c.(map[string]any); ok && fields["type"] == clusterv1.ReadyCondition {
			return fields["status"]
		}
	}
	return nil
}

// nested returns a field of an object; nil if it has none.
func nested(object map[string]any, path ...string) any {
	value, found, err := unstructured.NestedFieldNoCopy(object, path...)
	if err != nil || !found {
		return nil
	}
	return value
}

// groupUrgency tells when a change of a MachineSet or MachineDeployment can change what Cluster
// API's Machine controller does with a Machine of it. TestMachineControllerReads pins the functions
// of v1.14.2 from which the list is taken:
//   - the template, and when a rollout is due, for the condition UpToDate;
//   - the revision, for the taint of outdated nodes;
//   - the labels, which name the MachineDeployment of a MachineSet, and which --watch-filter selects
//     by;
//   - the condition Paused, because the controller ignores the events by which a Cluster is paused
//     and resumed: its Machines learn of both from the conditions of their groups;
//   - the identity, and the beginning of a deletion.
//
// It does not read replicas, other annotations and the rest of the status. A change of a
// MachineDeployment that begins a rollout is passed on after the first Machines have moved.
func groupUrgency(before, after any) urgency {
	switch b := after.(type) {
	case *clusterv1.MachineSet:
		if a, ok := before.(*clusterv1.MachineSet); ok {
			return setUrgency(a, b)
		}
	case *clusterv1.MachineDeployment:
		if a, ok := before.(*clusterv1.MachineDeployment); ok {
			return deploymentUrgency(a, b)
		}
	}
	return now
}

func setUrgency(a, b *clusterv1.MachineSet) urgency {
	if metadataConcerns(a, b) || revisionChanged(a, b) ||
		pausedChanged(a.Status.Conditions, b.Status.Conditions) ||
		!equality.Semantic.DeepEqual(&a.Spec.Template, &b.Spec.Template) {
		return now
	}
	return never
}

func deploymentUrgency(a, b *clusterv1.MachineDeployment) urgency {
	switch {
	case metadataConcerns(a, b) || pausedChanged(a.Status.Conditions, b.Status.Conditions):
		return now
	case revisionChanged(a, b) || !a.Spec.Rollout.After.Equal(&b.Spec.Rollout.After) ||
		!equality.Semantic.DeepEqual(&a.Spec.Template, &b.Spec.Template):
		return soon
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
