package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// InFlightIndex is the index of the cached metadata of Machines that Options.Client must have; IndexInFlight makes it. With it,
// a Machine that wants to begin costs as much as there are others in flight, not as much as the Cluster has Machines.
const InFlightIndex = "windlass.inFlight"

// unreadablePolicy is the policy of a Machine whose record cannot be read: it may be any.
const unreadablePolicy = "?"

// IndexInFlight returns what a Machine is found by while it is updated in place: its Cluster and policy.
func IndexInFlight(object client.Object) []string {
	policy, _, inFlight := updateOf(object)
	if !inFlight {
		policy, inFlight = upgradeOf(object)
	}
	if _, worker := object.GetLabels()[clusterv1.MachineDeploymentNameLabel]; !worker || !inFlight {
		return nil
	}
	return []string{indexValue(object.GetLabels()[clusterv1.ClusterNameLabel], policy)}
}

func indexValue(cluster, policy string) string { return cluster + "/" + policy }

// inFlight returns a function that reads which machines of the scope are in flight: those with progress on record, the
// finally failed ones included. A failure so holds its place until a person has looked at it.
func (r *run) inFlight(ctx context.Context) func() (inplace.Seen[types.UID], error) {
	return func() (inplace.Seen[types.UID], error) {
		// Of upgrades that annotations ask for, slots note no begin and no end.
		found := inplace.Seen[types.UID]{Noted: map[types.UID]string{}, Others: map[types.UID]struct{}{}}
		for _, policy := range []string{r.policy.Name, unreadablePolicy} {
			machines := newMachineMetadataList()
			err := r.Client.List(ctx, machines, client.InNamespace(r.owner.group.Namespace),
				client.MatchingFields{InFlightIndex: indexValue(r.owner.group.Cluster, policy)}, client.UnsafeDisableDeepCopy)
			if err != nil {
				return inplace.Seen[types.UID]{}, fmt.Errorf("listing the Machines in flight of Cluster %s/%s: %w", r.owner.group.Namespace, r.owner.group.Cluster, err)
			}
			for i := range machines.Items {
				m := &machines.Items[i]
				if _, id, updated := updateOf(m); updated {
					found.Noted[m.UID] = id
				} else {
					found.Others[m.UID] = struct{}{}
				}
			}
		}
		return found, nil
	}
}

// updateOf reports whether a Machine is updated for Cluster API, as far as that can be read, and
// returns policy and id of the update; no id where that cannot be read. What is left of an update
// whose mark somebody took away holds no place.
func updateOf(m client.Object) (policy, id string, updated bool) {
	if !has(m, clusterv1.UpdateInProgressAnnotation) {
		return "", "", false
	}
	p, err := readAnnotation[inplace.Progress](m, v1alpha1.UpdateProgressAnnotation)
	if err != nil {
		return unreadablePolicy, "", true
	}
	if p == nil || !m.GetDeletionTimestamp().IsZero() {
		return "", "", false
	}
	return p.Policy, p.ID, true
}

// upgradeOf reports whether a Machine is upgraded because an annotation asks for it, as far as that
// can be read, and returns the policy of the upgrade.
func upgradeOf(m client.Object) (policy string, upgraded bool) {
	u, err := readAnnotation[request.Upgrade](m, v1alpha1.InPlaceUpgradeAnnotation)
	if err != nil {
		return unreadablePolicy, true
	}
	if !u.IsRunning() || !m.GetDeletionTimestamp().IsZero() {
		return "", false
	}
	return u.Progress.Policy, true
}

// countInFlight counts for a machine that has not begun. Begin counts again: another one may begin
// meanwhile.
func (r *run) countInFlight(ctx context.Context) (err error) {
	if r.saved == nil && r.policy.Policy.MaxInFlight > 0 && !r.owner.group.ControlPlane {
		r.facts.InFlight, err = r.slots.Count(r.scope(), r.Object.UID, r.Now(), r.inFlight(ctx))
	}
	return err
}

// queue returns the reply to a machine that finds no slot, and notes that it waits.
func (r *run) queue(w inplace.Wait) inplace.Reply {
	after := r.slots.Queue(r.scope(), r.Object.UID, r.live.request, r.Now(), r.policy.Policy.MaxInFlight)
	return inplace.Reply{RetryAfter: after, Message: w.Message}
}

// stillQueued answers a request about a Machine that waits for a slot, while none is free. It makes
// no request: machines that wait are many, and ask again and again. Nothing is done because of the
// answer, so the cache is good enough. Where the cache does not tell, or the request is not the one
// that was compared with the live objects when the Machine found no slot, everything is read.
func (e *Engine) stillQueued(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) (inplace.Reply, bool) {
	m := metadataOf(machineKind)
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(&request.Desired.Machine), m); err != nil {
		return inplace.Reply{}, false
	}
	isControlPlane := capi.IsControlPlane(m)
	if isControlPlane || has(m, v1alpha1.UpdateProgressAnnotation) || !has(m, clusterv1.UpdateInProgressAnnotation) {
		return inplace.Reply{}, false
	}
	o, err := e.readOwner(ctx, m)
	if err != nil {
		return inplace.Reply{}, false
	}
	asked, err := requestDigest(request)
	if err != nil {
		return inplace.Reply{}, false
	}
	r := &run{
		Machine: Machine{Engine: e, Object: &clusterv1.Machine{ObjectMeta: m.ObjectMeta}},
		live:    &liveObjects{request: asked}, owner: o,
	}
	if r.policy, err = e.selectPolicy(ctx, o.group); err != nil || !r.slots.IsQueued(r.scope(), m.UID, asked, e.Now()) {
		return inplace.Reply{}, false
	}
	if err := r.countInFlight(ctx); err != nil || !r.policy.Policy.IsFull(r.facts.InFlight) {
		return inplace.Reply{}, false
	}
	return r.queue(inplace.Queued(r.policy.Policy)), true
}

// requestDigest identifies a request by all that it holds.
func requestDigest(request *runtimehooksv1.UpdateMachineRequest) (string, error) {
	objects, err := machineObjects(runtimehooksv1.CanUpdateMachineRequestObjects(request.Desired))
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(objects)
	if err != nil {
		return "", fmt.Errorf("encoding the objects of a request: %w", err)
	}
	sum := sha256.Sum256(data)
	return string(sum[:]), nil
}
