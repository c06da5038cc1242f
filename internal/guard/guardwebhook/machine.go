package guardwebhook

import (
	"cmp"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// deleteForMoveAnnotation is what `clusterctl move` puts on objects that it has copied and is about to delete.
// Source: cmd/clusterctl/api/v1alpha3 of Cluster API.
const deleteForMoveAnnotation = "clusterctl.cluster.x-k8s.io/delete-for-move"

// maxName is how long the API server lets names be. What is kept of a request must be bounded.
const maxName = 253

// machine is the Machine of a request.
type machine struct {
	namespace string
	uid       types.UID
	cluster   string
	// labels has those of knownLabels only, because a request that waits keeps it.
	labels     map[string]string
	controller *metav1.OwnerReference
	facts      guard.Machine
}

// meta returns what the owner of the Machine's group is found by.
func (m machine) meta() metav1.Object {
	meta := &metav1.ObjectMeta{Namespace: m.namespace, Labels: m.labels}
	if m.controller != nil {
		meta.OwnerReferences = []metav1.OwnerReference{*m.controller}
	}
	return meta
}

// wireMachine is as much of a Machine as is needed, of all versions: they differ in where conditions are.
type wireMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		ClusterName string `json:"clusterName"`
	} `json:"spec"`
	Status struct {
		Conditions []wireCondition `json:"conditions"`
		// V1Beta2 is where a v1beta1 Machine keeps its conditions of the newer kind.
		V1Beta2 *struct {
			Conditions []wireCondition `json:"conditions"`
		} `json:"v1beta2"`
	} `json:"status"`
}

type wireCondition struct {
	Type   string                 `json:"type"`
	Status metav1.ConditionStatus `json:"status"`
}

// parseMachine reads the Machine that is to be created, or that is to be deleted.
func parseMachine(operation guard.Operation, request admission.Request) (machine, error) {
	raw := request.Object.Raw
	if operation == guard.Delete {
		raw = request.OldObject.Raw
	}
	if len(raw) == 0 {
		return machine{}, errors.New("the request holds no Machine")
	}
	var wire wireMachine
	if err := untrusted.Object.Unmarshal(raw, &wire); err != nil {
		return machine{}, fmt.Errorf("the request holds no Machine that can be read: %w", err)
	}
	name := cmp.Or(wire.Name, wire.GenerateName)
	if name == "" || wire.Spec.ClusterName == "" {
		return machine{}, errors.New("the Machine of the request has no name, or no spec.clusterName")
	}
	if len(name) > maxName || len(wire.Spec.ClusterName) > maxName || len(wire.UID) > maxName {
		return machine{}, fmt.Errorf("the Machine of the request has a name, uid or spec.clusterName of more than %d bytes", maxName)
	}
	m := machine{
		// The namespace of the request is the one that the API server has checked.
		namespace: request.Namespace, uid: cmp.Or(wire.UID, types.UID(name)), cluster: wire.Spec.ClusterName,
		labels: readLabels(wire), controller: metav1.GetControllerOf(&wire), facts: guard.Machine{Name: name},
	}
	if operation == guard.Delete {
		m.facts.Deleting = !wire.DeletionTimestamp.IsZero()
		m.facts.Moving = has(wire.Annotations, deleteForMoveAnnotation)
		m.facts.Replaceable = has(wire.Annotations, v1alpha1.AllowReplacementAnnotation)
		m.facts.Updating = has(wire.Annotations, clusterv1.UpdateInProgressAnnotation)
		m.facts.Remediating = has(wire.Annotations, clusterv1.RemediateMachineAnnotation) || isUnhealthy(wire)
	}
	return m, nil
}

// knownLabels are the labels by which a group is found.
var knownLabels = []string{clusterv1.MachineDeploymentNameLabel, clusterv1.MachineControlPlaneLabel}

func readLabels(wire wireMachine) map[string]string {
	labels := map[string]string{}
	for _, name := range knownLabels {
		if value, ok := wire.Labels[name]; ok {
			labels[name] = value
		}
	}
	return labels
}

// isUnhealthy says that the Machine's owner is to remediate it, as Cluster API's owners decide that
// (collections.IsUnhealthyAndOwnerRemediated).
func isUnhealthy(wire wireMachine) bool {
	conditions := wire.Status.Conditions
	if wire.Status.V1Beta2 != nil {
		conditions = wire.Status.V1Beta2.Conditions
	}
	return isFalse(conditions, clusterv1.MachineHealthCheckSucceededCondition) && isFalse(conditions, clusterv1.MachineOwnerRemediatedCondition)
}

func isFalse(conditions []wireCondition, name string) bool {
	for _, c := range conditions {
		if c.Type == name {
			return c.Status == metav1.ConditionFalse
		}
	}
	return false
}

func has(annotations map[string]string, name string) bool {
	_, ok := annotations[name]
	return ok
}

func (m machine) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Namespace: m.namespace, Name: m.facts.Name, UID: m.uid}
}
