package handover

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/updaters"
)

var _ port.Taker = &Updater{}

// Take implements port.Taker: it hands all Machines of a MachineSet over. Errors of the exchange are
// *updaters.Error.
func (u *Updater) Take(
	ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest, t port.Taking,
) (declined string, err error) {
	current, desired, err := updaters.MachineSetObjects(request)
	if err != nil {
		return "", err
	}
	message, err := u.offerMachineSet(ctx, request, current, desired)
	if err != nil {
		return "", err
	}
	message.Phase, message.OperationID = updatesv1.HandOver, t.Operation
	message.Budget = &updatesv1.Budget{AtOnce: t.AtOnce, First: t.First, Stay: t.Stay}
	return u.tell(ctx, message)
}

// Stop implements port.Taker: it cancels the operation.
func (u *Updater) Stop(
	ctx context.Context, set *clusterv1.MachineSet, operation, reason string,
) (declined string, err error) {
	group, err := u.listGroup(ctx, set, ownerOf(set), set.Spec.ClusterName)
	if err != nil {
		return "", err
	}
	return u.tell(ctx, updatesv1.HandOverRequest{
		Phase: updatesv1.Cancel, OperationID: operation, Reason: reason,
		Cluster: updatesv1.ObjectName{Namespace: set.Namespace, Name: set.Spec.ClusterName}, Owner: ownerOf(set),
		Machines: namesOf(ownedBy(group, set)),
	})
}

// tell sends a request, and returns why it is declined; empty if it is accepted.
func (u *Updater) tell(ctx context.Context, request updatesv1.HandOverRequest) (declined string, err error) {
	response, err := u.Send(ctx, request)
	if err != nil || response.Accepted {
		return "", err
	}
	return response.Reason, nil
}
