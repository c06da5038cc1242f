package machineset

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// setFacts leave out the status of a MachineSet: only this controller writes it, and each reconcile
// computes it anew.
func setFacts(o client.Object) any { return objects.MetadataOf(o) }

// deploymentFacts are the generation, which covers remediation and replicas, the annotations, of
// which the revision is one, and the labels, by which UpdatePolicies select.
func deploymentFacts(o client.Object) any {
	return objects.Metadata{
		Generation: o.GetGeneration(), Annotations: o.GetAnnotations(), Labels: o.GetLabels(),
	}
}

// machineConditions are the conditions of Machines that rules and status of a MachineSet read.
var machineConditions = []string{
	clusterv1.MachineReadyCondition, clusterv1.MachineAvailableCondition,
	clusterv1.MachineUpToDateCondition, clusterv1.MachineDeletingCondition,
	clusterv1.MachineNodeHealthyCondition, clusterv1.MachineHealthCheckSucceededCondition,
	clusterv1.MachineOwnerRemediatedCondition,
}

// machineState is what reconciles read of a Machine's status.
type machineState struct {
	Metadata   objects.Metadata
	Node       clusterv1.MachineNodeReference
	Kubelet    string
	DrainSince metav1.Time
	Conditions []*metav1.Condition
	Legacy     any
}

func machineFacts(o client.Object) any {
	m, ok := o.(*clusterv1.Machine)
	if !ok {
		return objects.MetadataOf(o)
	}
	state := machineState{
		Metadata: objects.MetadataOf(m), Node: m.Status.NodeRef, Kubelet: capi.Kubelet(m),
	}
	if m.Status.Deletion != nil {
		state.DrainSince = m.Status.Deletion.NodeDrainStartTime
	}
	for _, kind := range machineConditions {
		state.Conditions = append(state.Conditions, conditions.Get(m, kind))
	}
	state.Legacy = legacyConditions(m)
	return state
}
