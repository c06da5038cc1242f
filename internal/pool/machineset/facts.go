package machineset

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// relevant lets an update pass if facts that a reconcile reads have changed, and everything that is
// not an update. It lets a resync pass, which is an update without a change.
func relevant(facts func(client.Object) any) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		if e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() {
			return true
		}
		return !equality.Semantic.DeepEqual(facts(e.ObjectOld), facts(e.ObjectNew))
	}}
}

// metadata is what reconciles read of the metadata of objects.
type metadata struct {
	Generation          int64
	Labels, Annotations map[string]string
	Owners              []metav1.OwnerReference
	Finalizers          []string
	Deleting            bool
}

func readMetadata(o metav1.Object) metadata {
	return metadata{
		Generation: o.GetGeneration(), Labels: o.GetLabels(), Annotations: o.GetAnnotations(),
		Owners: o.GetOwnerReferences(), Finalizers: o.GetFinalizers(),
		Deleting: o.GetDeletionTimestamp() != nil,
	}
}

// setFacts leave out the status of a MachineSet: only this controller writes it, and each reconcile
// computes it anew.
func setFacts(o client.Object) any { return readMetadata(o) }

// deploymentFacts are the generation, which covers remediation and replicas, and the annotations,
// of which the revision is one.
func deploymentFacts(o client.Object) any {
	return metadata{Generation: o.GetGeneration(), Annotations: o.GetAnnotations()}
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
	Metadata   metadata
	Node       clusterv1.MachineNodeReference
	Kubelet    string
	DrainSince metav1.Time
	Conditions []*metav1.Condition
	Legacy     any
}

func machineFacts(o client.Object) any {
	m, ok := o.(*clusterv1.Machine)
	if !ok {
		return readMetadata(o)
	}
	state := machineState{Metadata: readMetadata(m), Node: m.Status.NodeRef}
	if m.Status.NodeInfo != nil {
		state.Kubelet = m.Status.NodeInfo.KubeletVersion
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

// selects reports whether the selector of a MachineSet matches labels. An empty or broken selector
// matches nothing.
func selects(set *clusterv1.MachineSet, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(of))
}
