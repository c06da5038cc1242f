package app

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/pool"
)

// machineEvents are those for Cluster API's Machine controller. It watches MachineSets and
// MachineDeployments and reconciles all Machines of a group at each event, also when only the
// group's status changed, which every change of a Machine causes: the reconciles grow with the
// square of the group. It also leaves a second between two reconciles of a Machine, so that an
// event of a move keeps it from the update that follows.
func machineEvents(p *pace) eventRules {
	return eventRules{
		settling: machineSettling, urgency: machineUrgency, delay: machineDelay, key: keyOf,
		requestOf: machineOf, pace: p, later: afterFunc,
	}
}

const (
	// rolloutDelay is longer than the time from the change of a MachineDeployment to the first
	// update in place of a Machine. It is also how late an update may begin because the cache has
	// shown the pending hook before the mark on the infrastructure.
	rolloutDelay = 2 * time.Second
	// pausedDelay is longer than the time from the creation of a Machine to its condition Paused.
	pausedDelay = 500 * time.Millisecond
	// externalDelay is for what others wrote to infrastructure machines and bootstrap configs, which
	// the Machine controller at most repeats in conditions.
	externalDelay = statusInterval
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
	if b, ok := after.(*unstructured.Unstructured); ok {
		return externalUpdateDelay(before, b)
	}
	b, ok := after.(*clusterv1.Machine)
	if !ok {
		return rolloutDelay
	}
	if moves(b) {
		return moveDelay
	}
	a, ok := before.(*clusterv1.Machine)
	if ok && !findsNode(a, b) &&
		maps.Equal(foreign(a.Status.Conditions), foreign(b.Status.Conditions)) {
		return ownDelay
	}
	return rolloutDelay
}

// findsNode reports whether a Machine has got its provider ID. Until the cache shows that, the
// event of its Node finds no Machine, and the controller waits for that event.
func findsNode(a, b *clusterv1.Machine) bool {
	return a.Spec.ProviderID == "" && b.Spec.ProviderID != ""
}

// ownConditions are conditions of a Machine that nobody but the Machine controller writes. That of
// control plane machines does not write UpToDate, but the condition Ready does not sum it up.
var ownConditions = []string{
	clusterv1.MachineBootstrapConfigReadyCondition, clusterv1.MachineInfrastructureReadyCondition,
	clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition,
	clusterv1.MachineDeletingCondition, clusterv1.MachineUpdatingCondition,
	clusterv1.MachineReadyCondition, clusterv1.MachineAvailableCondition,
	clusterv1.MachineUpToDateCondition,
}

// foreign returns the statuses of the conditions that others write, which Ready sums up.
func foreign(conditions []metav1.Condition) map[string]metav1.ConditionStatus {
	statuses := map[string]metav1.ConditionStatus{}
	for _, c := range conditions {
		if !slices.Contains(ownConditions, c.Type) {
			statuses[c.Type] = c.Status
		}
	}
	return statuses
}

func keyOf(o any) string {
	object, ok := o.(client.Object)
	if !ok {
		return ""
	}
	return client.ObjectKeyFromObject(object).String()
}

// moves reports whether a Machine waits until its MachineSet starts the update. Until then nothing
// is to be done for it.
func moves(m *clusterv1.Machine) bool {
	return m.DeletionTimestamp.IsZero() && pool.AwaitsUpdate(m)
}

// machineOf returns the Machine that an update enqueues, if it is one.
func machineOf(o any) (reconcile.Request, bool) {
	switch object := o.(type) {
	case *clusterv1.Machine:
		return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}, true
	case *unstructured.Unstructured:
		if isOwnedByMachine(object) {
			name := metav1.GetControllerOf(object).Name
			return reconcile.Request{
				NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: name},
			}, true
		}
	}
	return reconcile.Request{}, false
}

// machineUrgency is now for objects of other types, too. The status of a Machine is the
// controller's own but for conditions of others, which it only sums up. It waits for the event of
// its own write after a change of the condition Paused alone.
func machineUrgency(before, after any) urgency {
	switch b := after.(type) {
	case *clusterv1.MachineSet, *clusterv1.MachineDeployment:
		return groupUrgency(before, after)
	case *clusterv1.Machine:
		a, ok := before.(*clusterv1.Machine)
		if moves(b) || ok && a.ResourceVersion != b.ResourceVersion && onlyOwnChanged(a, b) {
			return soon
		}
	case *unstructured.Unstructured:
		a, ok := before.(*unstructured.Unstructured)
		if ok {
			return externalUrgency(a, b)
		}
	}
	return now
}

// onlyOwnChanged reports whether two versions of a Machine differ only in what the controller
// itself writes at the end of a reconcile: the status, and what it copies to the spec from the
// bootstrap config and the infrastructure machine. Each phase reads from the Machine what an
// earlier one has copied, so that the next reconcile has only to write the observed generation.
func onlyOwnChanged(a, b *clusterv1.Machine) bool {
	spec := a.Spec
	spec.ProviderID, spec.FailureDomain = b.Spec.ProviderID, b.Spec.FailureDomain
	spec.Bootstrap.DataSecretName = b.Spec.Bootstrap.DataSecretName
	return sameButGeneration(a, b) && equality.Semantic.DeepEqual(&spec, &b.Spec) &&
		!pausedChanged(a.Status.Conditions, b.Status.Conditions)
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
