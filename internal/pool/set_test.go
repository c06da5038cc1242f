package pool_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool"
)

// msNow is the time of all tests of MachineSets.
var msNow = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

type (
	machineOption func(*clusterv1.Machine)
	setOption     func(*clusterv1.MachineSet)
)

// msMachine returns a healthy Machine with a Node that is an hour old.
func msMachine(name string, options ...machineOption) *clusterv1.Machine {
	m := &clusterv1.Machine{}
	m.Name, m.Namespace = name, "ns"
	m.CreationTimestamp = metav1.NewTime(msNow.Add(-time.Hour))
	m.Status.NodeRef.Name = "node-" + name
	for _, option := range options {
		option(m)
	}
	return m
}

// msSet returns a MachineSet with a number of replicas.
func msSet(replicas int32, options ...setOption) *clusterv1.MachineSet {
	set := &clusterv1.MachineSet{}
	set.Name, set.Namespace = "set", "ns"
	set.Spec.Replicas = &replicas
	for _, option := range options {
		option(set)
	}
	return set
}

func setMark(key, value string) setOption {
	return func(set *clusterv1.MachineSet) {
		if set.Annotations == nil {
			set.Annotations = map[string]string{}
		}
		set.Annotations[key] = value
	}
}

func orderedBy(order clusterv1.MachineSetDeletionOrder) setOption {
	return func(set *clusterv1.MachineSet) { set.Spec.Deletion.Order = order }
}

func machineMark(key, value string) machineOption {
	return func(m *clusterv1.Machine) {
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[key] = value
	}
}

func old(age time.Duration) machineOption {
	return func(m *clusterv1.Machine) { m.CreationTimestamp = metav1.NewTime(msNow.Add(-age)) }
}

func inDeletion(since time.Duration) machineOption {
	return func(m *clusterv1.Machine) { m.DeletionTimestamp = new(metav1.NewTime(msNow.Add(-since))) }
}

func withoutNode(m *clusterv1.Machine) { m.Status.NodeRef = clusterv1.MachineNodeReference{} }

func reports(kind string, status metav1.ConditionStatus, reason, message string) machineOption {
	return func(m *clusterv1.Machine) {
		m.Status.Conditions = append(m.Status.Conditions,
			metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

// Options for what happens to Machines.
var (
	updateMarked  = machineMark(clusterv1.UpdateInProgressAnnotation, "")
	hookPending   = machineMark(runtimev1.PendingHooksAnnotation, "UpdateMachine")
	movePending   = machineMark(clusterv1.PendingAcknowledgeMoveAnnotation, "")
	deleteAsked   = machineMark(clusterv1.DeleteMachineAnnotation, "")
	nodeUnhealthy = reports(clusterv1.MachineNodeHealthyCondition, metav1.ConditionFalse, "Failed", "")
	checkFailed   = reports(clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse, "Failed", "")
	checkPassed   = reports(clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionTrue, "Passed", "")
	ownerAsked    = reports(clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse,
		clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, "Waiting for remediation")
	ownerDeletes = reports(clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse,
		clusterv1.MachineSetMachineRemediationMachineDeletingReason, "Machine is deleting")
)

// toRemediate is a Machine that a MachineHealthCheck wants remediated.
func toRemediate(m *clusterv1.Machine) {
	checkFailed(m)
	ownerAsked(m)
}

// machinesOf draws Machines in any state, with names that differ.
func machinesOf(t *rapid.T) []*clusterv1.Machine {
	options := []machineOption{
		updateMarked, hookPending, movePending, deleteAsked, nodeUnhealthy, toRemediate, withoutNode,
		inDeletion(time.Minute),
	}
	var machines []*clusterv1.Machine
	for i := range rapid.IntRange(0, 8).Draw(t, "machines") {
		m := msMachine(fmt.Sprintf("m%d", i))
		old(time.Duration(rapid.IntRange(-5, 50).Draw(t, "days")) * 24 * time.Hour)(m)
		for _, chosen := range rapid.SliceOfNDistinct(
			rapid.IntRange(0, len(options)-1), 0, 3, rapid.ID[int]).Draw(t, "states") {
			options[chosen](m)
		}
		machines = append(machines, m)
	}
	return machines
}

// setOf draws a MachineSet in any state.
func setOf(t *rapid.T) *clusterv1.MachineSet {
	set := msSet(rapid.Int32Range(0, 8).Draw(t, "replicas"), orderedBy(
		rapid.SampledFrom([]clusterv1.MachineSetDeletionOrder{"", "Random", "Newest", "Oldest"}).Draw(t, "order")))
	for _, key := range []string{
		clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation,
		clusterv1.MachineSetMoveMachinesToMachineSetAnnotation,
	} {
		if rapid.Bool().Draw(t, key) {
			setMark(key, "other")(set)
		}
	}
	if rapid.Bool().Draw(t, "disabled") {
		setMark(clusterv1.DisableMachineCreateAnnotation, "true")(set)
	}
	return set
}

func factsOf(set *clusterv1.MachineSet, machines ...*clusterv1.Machine) pool.SetFacts {
	return pool.SetFacts{MachineSet: set, Machines: machines, MachinesRead: true, Now: msNow}
}

func names(machines []*clusterv1.Machine) []string {
	var all []string
	for _, m := range machines {
		all = append(all, m.Name)
	}
	return all
}
