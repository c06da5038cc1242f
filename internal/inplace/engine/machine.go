package engine

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// callBudget bounds a request to an updater: its answer must still be recorded within the budget of the call.
const callBudget = 20 * time.Second

// Machine is a Machine and its node, as an update in place acts on them, whoever asked for it. Every effect requires
// that the Machine is still what was decided on; otherwise it returns a *staleError.
type Machine struct {
	*Engine
	// Object is the Machine as it was read, or written last.
	Object *clusterv1.Machine
	// confirmed is when the Machine was last known to be what is decided on.
	confirmed confirmed
}

// NewMachine returns a Machine that was unchanged at the time read of the engine's clock.
func (e *Engine) NewMachine(object *clusterv1.Machine, read time.Time) Machine {
	return Machine{Engine: e, Object: object, confirmed: confirmedSince(read, e.Now)}
}

// Look returns the time to the second, as it is recorded, and the node.
func (m *Machine) Look(ctx context.Context) (time.Time, inplace.Node) {
	now := m.now()
	name := m.Object.Status.NodeRef.Name
	if name == "" {
		return now, inplace.Node{Unknown: "the Machine has no status.nodeRef yet"}
	}
	node := m.Nodes.Node(ctx, m.cluster(), name)
	node.ReadySince = m.clock.Past(m.Object.Namespace, node.ReadySince, now)
	return now, node
}

// now is the time as it is recorded.
func (e *Engine) now() time.Time { return e.Now().UTC().Truncate(time.Second) }

func (m *Machine) key() types.NamespacedName { return client.ObjectKeyFromObject(m.Object) }

// name names the Machine in messages and logs.
func (m *Machine) name() string { return m.key().String() }

func (m *Machine) cluster() types.NamespacedName {
	return types.NamespacedName{Namespace: m.Object.Namespace, Name: m.Object.Spec.ClusterName}
}

// Drain drains the node as Cluster API does when it deletes a Machine: not if the Machine excludes its node, and not
// longer than the Machine says.
func (m *Machine) Drain(ctx context.Context, began time.Time) (inplace.DrainState, error) {
	var limit time.Duration
	if seconds := m.Object.Spec.Deletion.NodeDrainTimeoutSeconds; seconds != nil {
		limit = time.Duration(*seconds) * time.Second
	}
	if has(m.Object, clusterv1.ExcludeNodeDrainingAnnotation) || limit > 0 && m.Now().Sub(began) > limit {
		return inplace.DrainState{Skip: true}, nil
	}
	if err := m.confirm(ctx); err != nil {
		return inplace.DrainState{}, err
	}
	ctx, cancel := m.confirmed.Bound(ctx)
	defer cancel()
	status, err := m.Nodes.Drain(ctx, m.cluster(), m.key(), m.Object.Status.NodeRef.Name)
	if err != nil {
		status.Done, status.Message = false, err.Error() // The next call tries again.
	}
	if !status.Done {
		status.Message, _ = m.draining.GetOrPut(m.Object.UID, status.Message, m.Now(), drainMessageFor)
	}
	return inplace.DrainState{Done: status.Done, Message: status.Message}, nil
}

// Uncordon makes the node schedulable.
func (m *Machine) Uncordon(ctx context.Context) error {
	if err := m.confirm(ctx); err != nil {
		return err
	}
	ctx, cancel := m.confirmed.Bound(ctx)
	defer cancel()
	if err := m.Nodes.Uncordon(ctx, m.cluster(), m.Object.Status.NodeRef.Name); err != nil {
		return fmt.Errorf("uncordoning the node of Machine %s: %w", m.key(), err)
	}
	return nil
}

// DisableScaleDown keeps the cluster autoscaler from removing the node. It removes no node of a control plane.
func (m *Machine) DisableScaleDown(ctx context.Context) {
	if capi.IsControlPlane(m.Object) || m.confirm(ctx) != nil {
		return
	}
	ctx, cancel := m.confirmed.Bound(ctx)
	defer cancel()
	if err := m.Nodes.DisableScaleDown(ctx, m.cluster(), m.Object.Status.NodeRef.Name); err != nil {
		logFor(ctx).Info("The cluster autoscaler may remove the node of a Machine that is being updated",
			"machine", m.name(), "reason", err.Error())
	}
}

// EnableScaleDown lets the cluster autoscaler remove the node, if this engine has kept it from that.
func (m *Machine) EnableScaleDown(ctx context.Context) error {
	if err := m.confirm(ctx); err != nil {
		return err
	}
	ctx, cancel := m.confirmed.Bound(ctx)
	defer cancel()
	if err := m.Nodes.EnableScaleDown(ctx, m.cluster(), m.Object.Status.NodeRef.Name); err != nil {
		return fmt.Errorf("letting the autoscaler remove the node of Machine %s: %w", m.key(), err)
	}
	return nil
}

// Ask shows an updater the objects of the Machine, with a command. What fails before the updater is asked is no
// silence of the updater, so it ends no attempt.
func (m *Machine) Ask(
	ctx context.Context, u *v1alpha1.Updater, objects runtimehooksv1.UpdateMachineRequestObjects, command Command,
) (inplace.Answer, error) {
	opened, err := m.Open(ctx, u)
	if err != nil {
		return inplace.Answer{Message: notOpened(u, err)}, nil
	}
	request, err := UpdateRequest(objects, command, m.reserved())
	if err != nil {
		return inplace.Answer{}, err
	}
	if err := m.confirm(ctx); err != nil {
		return inplace.Answer{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, callBudget)
	defer cancel()
	answer := opened.UpdateMachine(bounded, request)
	var problem error
	if answer.Outcome == inplace.Unknown {
		problem = fmt.Errorf("%s", answer.Message)
	}
	m.noteRequest(ctx, u, "UpdateMachine", m.key(), answer.Message, problem)
	return answer, nil
}

// AskCanBegin shows an updater the objects of the Machine, with the command that it would get, and asks
// whether it can begin. An updater that cannot be opened does not tell.
func (m *Machine) AskCanBegin(
	ctx context.Context, u *v1alpha1.Updater, objects runtimehooksv1.UpdateMachineRequestObjects, command Command,
) (inplace.Readiness, error) {
	opened, err := m.Open(ctx, u)
	if err != nil {
		return inplace.Readiness{Unknown: notOpened(u, err)}, nil
	}
	request, err := UpdateRequest(objects, command, m.reserved())
	if err != nil {
		return inplace.Readiness{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, callBudget)
	defer cancel()
	return opened.CanBegin(bounded, request), nil
}

func notOpened(u *v1alpha1.Updater, err error) string {
	return fmt.Sprintf("opening updater %q: %v", u.Name, err)
}

// Record writes annotations, and removes those that are nil.
func (m *Machine) Record(ctx context.Context, p Patch) error {
	return m.fence.Retry(ctx, m.Object, func() error { return m.RecordBegin(ctx, p) })
}

// RecordBegin is Record for an update that begins: after any change of the Machine that is decided again, because
// another update may have begun meanwhile.
func (m *Machine) RecordBegin(ctx context.Context, p Patch) error {
	at := m.Now()
	if err := m.fence.Annotate(ctx, m.Object, p); err != nil {
		return err
	}
	m.confirmed.Renew(at)
	m.members.addWritten(m.Object)
	return nil
}

// confirm must be called right before an effect; see fence.Confirm.
func (m *Machine) confirm(ctx context.Context) error {
	return m.fence.Confirm(ctx, m.Object, &m.confirmed)
}
