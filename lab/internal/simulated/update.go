package simulated

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/updaters"
	"github.com/windlass-dev/windlass/pkg/version"
)

// maxRetry is the longest that a caller is told to wait, so that a changed behaviour shows soon.
const maxRetry = 10 * time.Second

// task is an UpdateMachine request in values.
type task struct {
	machine, cluster types.NamespacedName
	// kubelet is the desired version, as it is written and as it is compared.
	kubelet string
	version version.Version
	// operation is the operation id; where the caller names none, as Cluster API itself, the desired state is it.
	operation string
	digest    string
}

// UpdateMachine implements port.Updater.
func (u *Updater) UpdateMachine(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) inplace.Answer {
	behaviour := u.behaves()
	if behaviour.Mode == Hang {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return updaters.Unknown("it was not waited for: %v", err)
	}
	t, err := u.parse(request)
	if err != nil {
		return updaters.Fails("%v", err)
	}
	machine := u.machine(t.machine.String())
	machine.mu.Lock()
	defer machine.mu.Unlock()
	machine.asked[t.operation]++
	if known := machine.operations[t.operation]; known != nil {
		switch {
		case known.Failed != "":
			return updaters.Fails("%s", known.Failed)
		case known.Completed || known.Lied:
			return inplace.Answer{Outcome: inplace.Finishes, Message: "done"}
		}
	}
	node, answer, ok := u.findNode(ctx, t)
	if !ok {
		return answer
	}
	return u.advance(ctx, behaviour, machine, t, node)
}

func (u *Updater) parse(request *runtimehooksv1.UpdateMachineRequest) (task, error) {
	m := &request.Desired.Machine
	t := task{
		machine:   types.NamespacedName{Namespace: m.Namespace, Name: m.Name},
		cluster:   types.NamespacedName{Namespace: m.Namespace, Name: m.Spec.ClusterName},
		kubelet:   m.Spec.Version,
		operation: m.Annotations[v1alpha1.OperationIDAnnotation],
	}
	if t.machine.Name == "" || t.machine.Namespace == "" || t.cluster.Name == "" {
		return task{}, fmt.Errorf("the desired Machine must have a name, a namespace and spec.clusterName")
	}
	var err error
	if t.version, err = version.Parse(t.kubelet); err != nil && u.version {
		return task{}, fmt.Errorf("the desired Machine's spec.version: %w", err)
	}
	desired, err := updaters.SpecObjects(m, request.Desired.InfrastructureMachine, request.Desired.BootstrapConfig)
	if err != nil {
		return task{}, err
	}
	if t.digest, err = digestOf(u.claims, desired); err != nil {
		return task{}, err
	}
	if t.operation == "" {
		t.operation = t.kubelet + "/" + t.digest
	}
	return t, nil
}

// nodeState is a machine's node as it was found.
type nodeState struct {
	name    string
	kubelet version.Version
}

// findNode looks the machine's node up; ok is false where the answer says why it could not.
func (u *Updater) findNode(ctx context.Context, t task) (found nodeState, answer inplace.Answer, ok bool) {
	name, err := u.options.NodeName(ctx, t.machine)
	switch {
	case apierrors.IsNotFound(err):
		return nodeState{}, updaters.Fails("there is no Machine %s", t.machine), false
	case err != nil:
		return nodeState{}, updaters.Unknown("looking the Machine up: %v", err), false
	case name == "":
		return nodeState{}, updaters.Fails("Machine %s has no node yet", t.machine), false
	}
	node := u.options.Nodes.Node(ctx, t.cluster, name)
	switch {
	case node.Unknown != "":
		return nodeState{}, updaters.Unknown("looking node %s of cluster %s up: %s", name, t.cluster, node.Unknown), false
	case !node.Exists:
		return nodeState{}, updaters.Fails("there is no node %s in cluster %s", name, t.cluster), false
	}
	return nodeState{name: name, kubelet: node.Kubelet}, inplace.Answer{}, true
}

// advance takes an operation as far as it goes now. The machine's lock is held.
func (u *Updater) advance(ctx context.Context, behaviour Behaviour, machine *machineState, t task, node nodeState) inplace.Answer {
	now := u.options.Now()
	current := machine.operations[t.operation]
	atVersion := !u.version || node.kubelet == t.version
	if current == nil {
		if atVersion && machine.applied == t.digest {
			return inplace.Answer{Outcome: inplace.Finishes, Message: "nothing to do"}
		}
		current = &operation{Machine: t.machine.String(), ID: t.operation, Accepted: now, Digest: t.digest}
		if answer, ok := u.remember(machine, *current); !ok {
			return answer
		}
	}
	next := *current
	if next.Started.IsZero() {
		if wait := behaviour.SlowStart.Duration - now.Sub(next.Accepted); wait > 0 {
			return inProgress(wait, "not started yet")
		}
		next.Started = now
		if answer, ok := u.remember(machine, next); !ok {
			return answer
		}
	}
	if wait := behaviour.Duration.Duration - now.Sub(next.Started); wait > 0 {
		return inProgress(wait, "updating the kubelet to "+t.kubelet)
	}
	if behaviour.Mode == Stall {
		return inProgress(maxRetry, "still working")
	}
	return u.finish(ctx, behaviour, machine, t, node, next, atVersion)
}

// finish ends an operation whose time has come.
func (u *Updater) finish(ctx context.Context, behaviour Behaviour, machine *machineState, t task, node nodeState, next operation, atVersion bool) inplace.Answer {
	switch {
	case behaviour.fails(u.options.Seed, next.Machine, next.ID):
		next.Failed = "the simulated update failed, as it was told to"
	case behaviour.Mode == Lie:
		next.Lied = true
	default:
		// A node that is there already was moved by this operation, before a restart that kept it from being recorded.
		if !atVersion {
			if err := u.options.Nodes.SetKubelet(ctx, t.cluster, node.name, t.kubelet); err != nil {
				return inProgress(time.Second, fmt.Sprintf("setting the kubelet version of node %s: %v; trying again", node.name, err))
			}
		}
		next.Completed = true
	}
	if answer, ok := u.remember(machine, next); !ok {
		return answer
	}
	if next.Failed != "" {
		return updaters.Fails("%s", next.Failed)
	}
	return inplace.Answer{Outcome: inplace.Finishes, Message: "done"}
}

// remember records an operation, on the disk first; ok is false where the answer says that it could not.
func (u *Updater) remember(machine *machineState, o operation) (answer inplace.Answer, ok bool) {
	if err := u.journal.record(o); err != nil {
		return updaters.Unknown("recording the operation: %v", err), false
	}
	machine.operations[o.ID] = &o
	if o.Completed {
		machine.applied = o.Digest
	}
	return inplace.Answer{}, true
}

func inProgress(wait time.Duration, message string) inplace.Answer {
	return inplace.Answer{Outcome: inplace.InProgress, Message: message, RetryAfter: min(max(wait, time.Second), maxRetry)}
}
