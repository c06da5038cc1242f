package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// IndexInFlight returns what a Machine of a MachineDeployment is found by: its Cluster and policy, and
// its group, while it is updated in place; its group and the target of the update that it has ended. If
// only its MachineSet names the group, it is found by its Cluster in place of the group.
func IndexInFlight(object client.Object) []string {
	group := groupInIndex(object)
	if group == "" {
		return nil
	}
	cluster := capi.ClusterName(object)
	var values []string
	if policy, inFlight := inFlight(object); inFlight {
		values = append(values, policyValue(cluster, policy))
		if group != unlabelled {
			values = append(values, groupValue(cluster, group))
		}
	}
	if group == unlabelled {
		return append(values, unlabelledValue(cluster))
	}
	if target := settledTarget(object); target != "" {
		values = append(values, settledValue(cluster, group, target))
	}
	return values
}

// inFlight reports whether a Machine is updated in place, for whomever, and returns the policy.
func inFlight(m client.Object) (policy string, inFlight bool) {
	if policy, _, updated := updateOf(m); updated {
		return policy, true
	}
	return upgradeOf(m)
}

// unlabelled is the group of a Machine that only its MachineSet knows. No object has this name.
const unlabelled = "?"

// groupInIndex is the name of the MachineDeployment of a Machine, or unlabelled; empty if it has none.
func groupInIndex(m metav1.Object) string {
	owner, _ := capi.OwnerOf(m)
	switch {
	case owner.IsMachineDeployment():
		return owner.Name
	case owner.GroupKind() == capi.MachineSetKind.GroupKind():
		return unlabelled
	}
	return ""
}

// The values of InFlightIndex differ by their slashes: no name has one.

func policyValue(cluster, policy string) string { return cluster + "/" + policy }
func groupValue(cluster, group string) string   { return cluster + "//" + group }
func unlabelledValue(cluster string) string     { return cluster + "///" }
func settledValue(cluster, group, target string) string {
	return cluster + "/" + group + "/" + target
}

// settledTarget is inplace.SettledTarget of a Machine. One that is being deleted, or whose records
// cannot be read, proves nothing.
func settledTarget(m client.Object) string {
	progress, err := readAnnotation[inplace.Progress](m, v1alpha1.UpdateProgressAnnotation)
	if err != nil || !m.GetDeletionTimestamp().IsZero() {
		return ""
	}
	last, err := readAnnotation[inplace.Summary](m, v1alpha1.LastUpdateAnnotation)
	if err != nil {
		return ""
	}
	return inplace.SettledTarget(progress, last)
}

// seen returns which of some Machines the cache shows in flight.
func seen(machines []metav1.PartialObjectMetadata) inplace.Seen[types.UID] {
	// Of upgrades that annotations ask for, slots note no begin and no end.
	found := inplace.Seen[types.UID]{Noted: map[types.UID]string{}, Others: map[types.UID]struct{}{}}
	for i := range machines {
		m := &machines[i]
		if _, id, updated := updateOf(m); updated {
			found.Noted[m.UID] = id
		} else {
			found.Others[m.UID] = struct{}{}
		}
	}
	return found
}

// policyScope names what shares maxInFlight, and groupScope what shares a canary.
func (r *run) policyScope() string {
	return r.Object.Namespace + "/" + policyValue(r.owner.group.Cluster, r.policy.Name)
}

func (r *run) groupScope() string {
	return r.Object.Namespace + "/" + groupValue(r.owner.group.Cluster, r.owner.group.Object)
}

// withOthers calls decide with the machines that may keep this one from beginning. Machines in flight
// are those with progress on record, the finally failed ones included: a failure so holds its place
// until a person has looked at it. decide reports whether this one has begun. Until it returns no other
// machine of the policy begins.
func (r *run) withOthers(ctx context.Context, decide func(inplace.Others) (bool, error)) error {
	inFlight := func() (inplace.Seen[types.UID], error) {
		key := r.owner.clusterKey()
		machines, err := r.listIndexed(ctx, key, policyValue(key.Name, r.policy.Name))
		if err != nil {
			return inplace.Seen[types.UID]{}, err
		}
		unreadable, err := r.listIndexed(ctx, key, policyValue(key.Name, unreadablePolicy))
		return seen(slices.Concat(machines, unreadable)), err
	}
	return r.slots.Begin(r.policyScope(), r.Object.UID, r.facts.FreshID, r.Now(), inFlight,
		func(n int) (bool, error) { return r.withGroup(ctx, inplace.Others{InFlight: n}, decide) })
}

// withGroup calls decide with others and the machines of the group. While no machine of the group has
// settled the update, one that begins is noted for the group, too.
func (r *run) withGroup(
	ctx context.Context, others inplace.Others, decide func(inplace.Others) (bool, error),
) (began bool, err error) {
	settled, err := r.isSettled(ctx)
	if err != nil {
		return false, err
	}
	if others.Settled = settled; settled {
		return decide(others)
	}
	inFlight := func() (inplace.Seen[types.UID], error) {
		machines, err := r.listOfGroup(ctx, groupValue(r.owner.group.Cluster, r.owner.group.Object),
			func(m client.Object) bool {
				_, inFlight := inFlight(m)
				return inFlight
			})
		var running []metav1.PartialObjectMetadata
		for i := range machines {
			if m := &machines[i]; m.UID != r.Object.UID && holdsGroup(m) {
				running = append(running, *m)
			}
		}
		others.First = firstName(running)
		return seen(running), err
	}
	err = r.slots.Begin(r.groupScope(), r.Object.UID, r.facts.FreshID, r.Now(), inFlight,
		func(n int) (bool, error) {
			others.Group = n
			began, err = decide(others)
			return began, err
		})
	return began, err
}

// holdsGroup reports whether a Machine in flight can be the canary of its group: one that has failed
// finally proves nothing any longer until a person acts, whoever asked for its update.
func holdsGroup(m client.Object) bool {
	progress, unreadable := readAnnotation[inplace.Progress](m, v1alpha1.UpdateProgressAnnotation)
	if unreadable != nil || progress != nil && !hasFailed(progress) {
		return true
	}
	upgrade, unreadable := readAnnotation[request.Upgrade](m, v1alpha1.InPlaceUpgradeAnnotation)
	return unreadable != nil || upgrade != nil && !upgrade.IsFinal()
}

// firstName is the first name of some Machines; empty if there are none.
func firstName(machines []metav1.PartialObjectMetadata) string {
	if len(machines) == 0 {
		return ""
	}
	first := slices.MinFunc(machines, func(a, b metav1.PartialObjectMetadata) int {
		return strings.Compare(a.Name, b.Name)
	})
	return "Machine " + first.Name
}

// isSettled reports whether a machine of the group has ended the update to the same target, or
// whether that does not matter.
func (r *run) isSettled(ctx context.Context) (bool, error) {
	if r.policy.Alone == 0 {
		return true, nil
	}
	target := capi.TemplateOf(r.Object)
	machines, err := r.listOfGroup(ctx,
		settledValue(r.owner.group.Cluster, r.owner.group.Object, target),
		func(m client.Object) bool { return target != "" && settledTarget(m) == target }, client.Limit(1))
	return len(machines) > 0, err
}

// endSlot notes that an update of the machine is over. Slots get times that no record holds, which a
// clock that is set does not change.
func (r *run) endSlot(id string) {
	now := r.Now()
	r.slots.End(r.policyScope(), r.Object.UID, id, now)
	r.slots.End(r.groupScope(), r.Object.UID, id, now)
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

// countOthers counts for a machine that has not begun. Begin counts again: another one may begin
// meanwhile.
func (r *run) countOthers(ctx context.Context) error {
	if r.saved != nil || r.owner.group.ControlPlane {
		return nil
	}
	return r.withOthers(ctx, func(others inplace.Others) (bool, error) {
		r.facts.Others = others
		return false, nil
	})
}

// keepWhileQueued keeps the cluster autoscaler from removing the node of a Machine that must wait for others. It
// tries once. The Machine is annotated first: without a record of an update, nothing else tells that its node has a
// mark to remove.
func (r *run) keepWhileQueued(ctx context.Context) error {
	if r.owner.group.ControlPlane || has(r.Object, v1alpha1.ScaleDownDisabledAnnotation) ||
		!r.Object.Status.NodeRef.IsDefined() {
		return nil
	}
	if err := r.Record(ctx, Patch{v1alpha1.ScaleDownDisabledAnnotation: new(string)}); err != nil {
		return err
	}
	r.DisableScaleDown(ctx)
	return nil
}

// queue returns the reply to a machine that must wait for others, and notes that it waits.
func (r *run) queue(w inplace.Wait) inplace.Reply {
	slots := max(int(r.policy.MaxInFlight), 1)
	after := r.slots.Queue(r.policyScope(), r.Object.UID, r.live.request, r.Now(), slots)
	return inplace.Reply{RetryAfter: after, Message: w.Message}
}

// stillQueued answers a request about a Machine that waits for others, while it must. It makes
// no request: machines that wait are many, and ask again and again. Nothing is done because of the
// answer, so the cache is good enough. Where the cache does not tell, or the request is not the one
// that was compared with the live objects when the Machine found no slot, everything is read.
func (e *Engine) stillQueued(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) (inplace.Reply, bool) {
	m := capi.MetadataOf(machineKind)
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
	if r.policy, err = e.selectPolicy(ctx, o.group); err != nil || !r.slots.IsQueued(r.policyScope(), m.UID, asked, e.Now()) {
		return inplace.Reply{}, false
	}
	if err := r.countOthers(ctx); err != nil {
		return inplace.Reply{}, false
	}
	queued, waits := inplace.Queued(r.policy, r.facts.Others)
	if !waits {
		return inplace.Reply{}, false
	}
	return r.queue(queued), true
}

// requestDigest identifies a request by all that it holds, without the mark of a Machine that waits: this engine
// sets it after it has compared the request.
func requestDigest(request *runtimehooksv1.UpdateMachineRequest) (string, error) {
	desired := runtimehooksv1.CanUpdateMachineRequestObjects(request.Desired)
	desired.Machine = *desired.Machine.DeepCopy()
	delete(desired.Machine.Annotations, v1alpha1.ScaleDownDisabledAnnotation)
	objects, err := machineObjects(desired)
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
