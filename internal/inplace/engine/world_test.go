package engine

import (
	"encoding/json"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	capicontract "sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// This file makes the objects that Cluster API asks about as it leaves them.

var infrastructure = runtime.RawExtension{Raw: []byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"XTemplate","metadata":{"name":"x"},"spec":{"template":{"spec":{}}}}`)}

func infrastructureRef(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: kind, Name: name}
}

// providerKinds are the CustomResourceDefinitions of providers: their version v1beta2 keeps the
// contract.
func providerKinds() []client.Object {
	var definitions []client.Object
	for group, kinds := range map[string][]string{
		"infrastructure": {"X", "XTemplate", "DevMachine", "DevMachineTemplate"},
		"bootstrap":      {"KubeadmConfig", "KubeadmConfigTemplate", "RKE2Config"},
		"controlplane":   {"KubeadmControlPlane", "RKE2ControlPlane"},
	} {
		for _, kind := range kinds {
			definitions = append(definitions, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
				Name:   capicontract.CalculateCRDName(group+".cluster.x-k8s.io", kind),
				Labels: map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"},
			}})
		}
	}
	return definitions
}

// canUpdateSet asks whether the machines of set old can be updated to set new, as Cluster API does: the live objects are what it asks about.
func (w *world) canUpdateSet(oldSet, newSet *clusterv1.MachineSet) (cover.Answer, error) {
	w.Helper()
	w.putSets(oldSet, newSet, infrastructure.Raw, infrastructure.Raw)
	return w.engine.CanUpdateMachineSet(w.Context(), setsRequest(oldSet, newSet))
}

func setsRequest(oldSet, newSet *clusterv1.MachineSet) *runtimehooksv1.CanUpdateMachineSetRequest {
	return &runtimehooksv1.CanUpdateMachineSetRequest{
		Current: runtimehooksv1.CanUpdateMachineSetRequestObjects{MachineSet: *oldSet, InfrastructureMachineTemplate: infrastructure},
		Desired: runtimehooksv1.CanUpdateMachineSetRequestObjects{MachineSet: *newSet, InfrastructureMachineTemplate: infrastructure},
	}
}

// putSets makes two MachineSets, and the template of their MachineDeployment, what a test asks about.
func (w *world) putSets(oldSet, newSet *clusterv1.MachineSet, oldTemplate, newTemplate []byte) {
	w.Helper()
	for _, set := range []*clusterv1.MachineSet{oldSet, newSet} {
		live := &clusterv1.MachineSet{}
		switch err := w.client.Get(w.Context(), client.ObjectKeyFromObject(set), live); {
		case apierrors.IsNotFound(err):
			live = set.DeepCopy()
			live.ResourceVersion = ""
			w.must(w.client.Create(w.Context(), live))
		case err != nil:
			w.Fatal(err)
		default:
			live.Spec = *set.Spec.DeepCopy()
			w.must(w.client.Update(w.Context(), live))
		}
	}
	md := &clusterv1.MachineDeployment{}
	w.must(w.client.Get(w.Context(), clientKey("md"), md))
	md.Spec.Template = *newSet.Spec.Template.DeepCopy()
	w.must(w.client.Update(w.Context(), md))
	w.putObject(oldTemplate, oldSet.Spec.Template.Spec.InfrastructureRef.Name)
	w.putObject(newTemplate, newSet.Spec.Template.Spec.InfrastructureRef.Name)
}

// putObject creates or replaces an object of any kind. It is marked as updating.
func (w *world) putObject(raw []byte, name string) *unstructured.Unstructured {
	w.Helper()
	object := &unstructured.Unstructured{}
	w.must(json.Unmarshal(raw, &object.Object))
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetAnnotations(map[string]string{clusterv1.UpdateInProgressAnnotation: ""})
	live := object.DeepCopy()
	switch err := w.client.Get(w.Context(), client.ObjectKeyFromObject(object), live); {
	case apierrors.IsNotFound(err):
		w.must(w.client.Create(w.Context(), object))
	case err != nil:
		w.Fatal(err)
	default:
		object.SetResourceVersion(live.GetResourceVersion())
		w.must(w.client.Update(w.Context(), object))
	}
	return object
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// infrastructureOf is the live infrastructure machine of a Machine as a request has it. It is created when it is first asked for.
func (w *world) infrastructureOf(m *clusterv1.Machine) runtime.RawExtension {
	w.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: m.Spec.InfrastructureRef.APIGroup, Version: "v1beta2", Kind: m.Spec.InfrastructureRef.Kind})
	key := types.NamespacedName{Namespace: m.Namespace, Name: m.Spec.InfrastructureRef.Name}
	if err := w.client.Get(w.Context(), key, object); apierrors.IsNotFound(err) {
		object = w.putObject([]byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"X","spec":{"providerID":"x:////`+m.Name+`"}}`), key.Name)
	} else if err != nil {
		w.Fatal(err)
	}
	raw, err := json.Marshal(object)
	w.must(err)
	return runtime.RawExtension{Raw: raw}
}

// request is UpdateMachine as Cluster API calls it.
// sent is what Cluster API sends of a Machine.
func sent(m *clusterv1.Machine) *clusterv1.Machine {
	return &clusterv1.Machine{
		TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, Namespace: m.Namespace, Labels: m.Labels, Annotations: m.Annotations,
		},
		Spec: m.Spec,
	}
}

func (w *world) request(name string) *runtimehooksv1.UpdateMachineRequest {
	w.Helper()
	m := sent(w.machine(name))
	return &runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{Machine: *m, InfrastructureMachine: w.infrastructureOf(m)}}
}

// update calls UpdateMachine as Cluster API does.
func (w *world) update(name string) (inplace.Reply, error) {
	w.Helper()
	w.lockInfrastructure.Lock()
	request := w.request(name)
	w.lockInfrastructure.Unlock()
	return w.engine.UpdateMachine(w.Context(), request)
}
