package update

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/core/inplace"
	"github.com/windlass-dev/windlass/internal/core/inplace/annotated"
	"github.com/windlass-dev/windlass/internal/engine/slots"
)

// inFlight returns a function that reads which machines of the scope are in flight: those with progress on record, the
// finally failed ones included. A failure so holds its place until a person has looked at it.
func (r *run) inFlight(ctx context.Context) func() (slots.Seen[types.UID], error) {
	return func() (slots.Seen[types.UID], error) {
		machines := newMachineMetadataList()
		err := r.Client.List(ctx, machines, client.InNamespace(r.machine.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: r.owner.group.Cluster},
			client.HasLabels{clusterv1.MachineDeploymentNameLabel}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return slots.Seen[types.UID]{}, fmt.Errorf("listing the Machines of Cluster %s/%s: %w", r.machine.Namespace, r.owner.group.Cluster, err)
		}
		// Of upgrades that annotations ask for, slots note no begin and no end.
		found := slots.Seen[types.UID]{Noted: map[types.UID]string{}, Others: map[types.UID]struct{}{}}
		for i := range machines.Items {
			m := &machines.Items[i]
			if id, updated := updateOf(m, r.policy.Name); updated {
				found.Noted[m.UID] = id
			} else if isUpgraded(m, r.policy.Name) {
				found.Others[m.UID] = struct{}{}
			}
		}
		return found, nil
	}
}

// updateOf reports whether a Machine is updated for Cluster API by a policy, as far as that can be read, and returns the update's id, empty where that
// cannot be read. What is left of an update whose mark somebody took away holds no place.
func updateOf(m client.Object, policy string) (id string, updated bool) {
	if !has(m, clusterv1.UpdateInProgressAnnotation) {
		return "", false
	}
	p, err := readAnnotation[inplace.Progress](m, v1alpha1.UpdateProgressAnnotation)
	if err != nil {
		return "", true
	}
	if p == nil || p.Policy != policy || !m.GetDeletionTimestamp().IsZero() {
		return "", false
	}
	return p.ID, true
}

// isUpgraded reports whether a Machine is upgraded by a policy because an annotation asks for it, as far as that can be read.
func isUpgraded(m client.Object, policy string) bool {
	u, err := readAnnotation[annotated.Upgrade](m, v1alpha1.InPlaceUpgradeAnnotation)
	return err != nil || u.IsRunning() && u.Progress.Policy == policy && m.GetDeletionTimestamp().IsZero()
}
