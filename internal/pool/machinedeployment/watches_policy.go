package machinedeployment

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// watchPolicies adds what the limits of UpdatePolicies depend on: the policies, and whether updates in
// place fail. Other changes of a Machine show in the status of its MachineSet.
func (r *Reconciler) watchPolicies(b *capicontroller.Builder) {
	b.Watches(&v1alpha1.UpdatePolicy{}, handler.EnqueueRequestsFromMapFunc(r.ForPolicy),
		objects.Changes(policyFacts)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(ForMachine),
			objects.Changes(failureFacts))
}

// policyFacts are those of an UpdatePolicy: not its status.
func policyFacts(o client.Object) any { return o.GetGeneration() }

// failureFacts are whether the update in place of a Machine failed.
func failureFacts(o client.Object) any {
	m, ok := o.(*clusterv1.Machine)
	return ok && conditions.GetReason(m, clusterv1.MachineUpdatingCondition) ==
		clusterv1.MachineInPlaceUpdateFailedReason
}

// ForMachine returns a request for the MachineDeployment of a Machine.
func ForMachine(_ context.Context, o client.Object) []ctrl.Request {
	name := o.GetLabels()[clusterv1.MachineDeploymentNameLabel]
	if name == "" {
		return nil
	}
	return []ctrl.Request{{
		NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: name},
	}}
}

// ForPolicy returns requests for the MachineDeployments in the namespace of an UpdatePolicy. An error
// is logged, and means none.
func (r *Reconciler) ForPolicy(ctx context.Context, o client.Object) []ctrl.Request {
	list := &clusterv1.MachineDeploymentList{}
	if err := r.Client.List(ctx, list, client.InNamespace(o.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list MachineDeployments of an UpdatePolicy",
			"UpdatePolicy", client.ObjectKeyFromObject(o))
		return nil
	}
	requests := make([]ctrl.Request, 0, len(list.Items))
	for _, md := range list.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&md)})
	}
	return requests
}
