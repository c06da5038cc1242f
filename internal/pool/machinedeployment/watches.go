package machinedeployment

import (
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/objects"
	"github.com/windlass-dev/windlass/internal/refusal"
)

// controllerName is also that of Cluster API's controller: its metrics and logs are found under the
// same name.
const controllerName = "machinedeployment"

// watch adds the controller to a manager.
func (r *Reconciler) watch(
	ctx context.Context, mgr ctrl.Manager, options controller.Options,
) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", controllerName)
	scheme := mgr.GetScheme()
	ofCluster, err := util.ClusterToTypedObjectsMapper(
		mgr.GetClient(), &clusterv1.MachineDeploymentList{}, scheme)
	if err != nil {
		return fmt.Errorf("finding MachineDeployments by Cluster: %w", err)
	}
	b := capicontroller.NewControllerManagedBy(mgr, log).
		For(&clusterv1.MachineDeployment{}, builder.WithPredicates(objects.Changes(deploymentFacts))).
		Owns(&clusterv1.MachineSet{}, objects.Changes(setFacts)).
		Watches(&clusterv1.MachineSet{}, handler.EnqueueRequestsFromMapFunc(r.ForOrphan),
			objects.Changes(orphanFacts)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(ForMachine),
			objects.Updates(isStep)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			objects.ClusterEvents(scheme, log, r.Keeps != nil)).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(scheme, log, r.WatchFilter))
	if r.Keeps != nil {
		policies := objects.PolicyWatch{
			Reader: r.Client, Exist: r.PoliciesExist, Filter: r.WatchFilter,
			NewList: func() client.ObjectList { return &clusterv1.MachineDeploymentList{} },
		}
		b.WatchesRawSource(policies.Source(mgr.GetCache()))
	}
	if r.controller, err = b.Build(ctx, refusal.BackOff(controllerName, r)); err != nil {
		return fmt.Errorf("adding the controller %s: %w", controllerName, err)
	}
	return nil
}

// deploymentFacts are what a reconcile depends on. Of the status that is only the condition Paused:
// a reconcile that changes it ends, and the event of the change begins the next one. This
// controller writes the rest of the status, and reads none of it.
func deploymentFacts(o client.Object) any {
	md, ok := o.(*clusterv1.MachineDeployment)
	return []any{objects.MetadataOf(o), ok && conditions.IsTrue(md, clusterv1.PausedCondition),
		ok && conditions.Has(md, clusterv1.PausedCondition)}
}

// isStep lets four changes of a Machine pass. All others are in the status of MachineSets.
//   - It has moved to another MachineSet, and waits until the MachineDeployment counts it.
//   - Its update in place failed, or is tried again: the limits count that.
//   - An updater that was handed the whole group has written it.
//   - Its labels are others: the order of the UpdatePolicy depends on them.
func isStep(e event.UpdateEvent) bool {
	before, wasMachine := e.ObjectOld.(*clusterv1.Machine)
	after, isMachine := e.ObjectNew.(*clusterv1.Machine)
	if !wasMachine || !isMachine {
		return false
	}
	return !pool.IsMovePending(before) && pool.IsMovePending(after) ||
		pool.HasFailedUpdate(before) != pool.HasFailedUpdate(after) ||
		!pool.IsUpdating(after) && writtenBy(before) != writtenBy(after) ||
		isRelabeled(before, after)
}

// isRelabeled reports whether other labels of a Machine have changed than those that change when it
// moves. Few changes of a Machine change labels, so few need copies.
func isRelabeled(before, after *clusterv1.Machine) bool {
	return !maps.Equal(before.Labels, after.Labels) &&
		!maps.Equal(ownLabels(before), ownLabels(after))
}

// ownLabels are the labels of a Machine without those that change when it moves.
func ownLabels(m *clusterv1.Machine) map[string]string {
	own := maps.Clone(m.Labels)
	delete(own, clusterv1.MachineSetNameLabel)
	delete(own, clusterv1.MachineDeploymentUniqueLabel)
	return own
}

// writtenBy is what an updater writes on a Machine that it was handed with the whole group. While a
// Machine is being updated by itself, Cluster API's rules write the version.
func writtenBy(m *clusterv1.Machine) [2]string {
	return [2]string{m.Spec.Version, m.Annotations[v1alpha1.UpdateFailedAnnotation]}
}

// ForMachine returns a request for the MachineDeployment of a Machine, if a label names it.
func ForMachine(_ context.Context, o client.Object) []ctrl.Request {
	name := o.GetLabels()[clusterv1.MachineDeploymentNameLabel]
	if name == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: name}}}
}

// setConditions are the conditions of a MachineSet that change when a Machine changes that the
// status of the MachineDeployment describes. Of Machines only moves are watched: a watch of all
// changes would enqueue the group once more for each.
var setConditions = []string{
	clusterv1.MachineSetMachinesReadyCondition, clusterv1.MachineSetMachinesUpToDateCondition,
	clusterv1.MachineSetRemediatingCondition, clusterv1.MachineSetScalingDownCondition,
	clusterv1.MachineSetDeletingCondition,
}

// setFacts are what a reconcile depends on. They leave out the conditions Paused and ScalingUp, but
// the generation that was read is in Paused.
func setFacts(o client.Object) any {
	set, ok := o.(*clusterv1.MachineSet)
	if !ok {
		return objects.MetadataOf(o)
	}
	s := &set.Status
	facts := []any{
		objects.MetadataOf(o), s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.UpToDateReplicas,
		s.ObservedGeneration, pool.ReadGeneration(set), s.Versions, oldFacts(set),
	}
	for _, name := range setConditions {
		if c := conditions.Get(set, name); c != nil {
			facts = append(facts, name, c.Status, c.Reason, c.Message)
		}
	}
	return facts
}

// oldFacts are those of the status in its old form.
//
//nolint:staticcheck // Cluster API writes this form as long as it serves API v1beta1.
func oldFacts(set *clusterv1.MachineSet) any {
	if set.Status.Deprecated == nil || set.Status.Deprecated.V1Beta1 == nil {
		return nil
	}
	old := set.Status.Deprecated.V1Beta1
	facts := []any{old.FullyLabeledReplicas, old.ReadyReplicas, old.AvailableReplicas}
	if c := v1beta1conditions.Get(set, clusterv1.ReadyV1Beta1Condition); c != nil {
		facts = append(facts, c.Status, c.Severity, c.Reason, c.Message)
	}
	return facts
}

// orphanFacts are what adoption depends on.
func orphanFacts(o client.Object) any { return []any{o.GetLabels(), o.GetOwnerReferences()} }

// ForOrphan returns requests for the MachineDeployments that could adopt a MachineSet: none if it
// has a controller.
func (r *Reconciler) ForOrphan(ctx context.Context, o client.Object) []ctrl.Request {
	if metav1.GetControllerOfNoCopy(o) != nil {
		return []ctrl.Request{}
	}
	var requests []ctrl.Request
	for _, md := range r.AdoptersOf(ctx, o) {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(md)})
	}
	return requests
}

// AdoptersOf returns the MachineDeployments whose selector matches a MachineSet. An error is
// logged, and means none.
func (r *Reconciler) AdoptersOf(
	ctx context.Context, o client.Object,
) []*clusterv1.MachineDeployment {
	if len(o.GetLabels()) == 0 {
		return nil
	}
	list := &clusterv1.MachineDeploymentList{}
	if err := r.Client.List(ctx, list, client.InNamespace(o.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list MachineDeployments that could adopt it",
			"MachineSet", client.ObjectKeyFromObject(o))
		return nil
	}
	return slices.DeleteFunc(pointersTo(list.Items), func(md *clusterv1.MachineDeployment) bool {
		selector, err := selectorOf(md)
		return err != nil || !selector.Matches(labels.Set(o.GetLabels()))
	})
}
