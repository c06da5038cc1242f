package handover

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/updaters"
)

// computeDifference gives the fields that Cluster API compares and that differ, with paths of Machine scope.
func computeDifference(scope cover.Scope, current, desired cover.Objects) ([]cover.Pointer, error) {
	coverage, err := cover.New(scope, current, desired, nil)
	if err != nil {
		return nil, fmt.Errorf("comparing the objects: %w", err)
	}
	var difference []cover.Pointer
	for _, pointer := range coverage.Result().Uncovered {
		if scope == cover.MachineSet {
			pointer.Path = strings.TrimPrefix(pointer.Path, "/spec/template")
		}
		if pointer.Path == "/spec" {
			return nil, fmt.Errorf("more than %d fields of the %s differ, which is too many to hand over. Fix: change fewer at once", cover.MaxPointers, pointer.Part)
		}
		// What is not below the spec is another kind of object, which no updater makes of this one.
		if strings.HasPrefix(pointer.Path, "/spec/") {
			difference = append(difference, pointer)
		}
	}
	return difference, nil
}

func objectsOf(o cover.Objects) updatesv1.Objects {
	return updatesv1.Objects{
		Machine:               runtime.RawExtension{Raw: o.Machine},
		InfrastructureMachine: runtime.RawExtension{Raw: o.Infrastructure},
		BootstrapConfig:       runtime.RawExtension{Raw: o.Bootstrap},
	}
}

// instantiate makes of a MachineSet and its templates what a Machine of it looks like, without a name.
func instantiate(set *clusterv1.MachineSet, templates cover.Objects) (updatesv1.Objects, error) {
	machine, err := json.Marshal(map[string]any{
		"apiVersion": clusterv1.GroupVersion.String(), "kind": "Machine",
		"metadata": map[string]any{"namespace": set.Namespace, "labels": set.Spec.Template.Labels, "annotations": set.Spec.Template.Annotations},
		"spec":     set.Spec.Template.Spec,
	})
	if err != nil {
		return updatesv1.Objects{}, fmt.Errorf("making a Machine of MachineSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	objects := updatesv1.Objects{Machine: runtime.RawExtension{Raw: machine}}
	if objects.InfrastructureMachine.Raw, err = instantiateTemplate(templates.Infrastructure); err != nil {
		return updatesv1.Objects{}, fmt.Errorf("making an infrastructure machine of its template: %w", err)
	}
	if objects.BootstrapConfig.Raw, err = instantiateTemplate(templates.Bootstrap); err != nil {
		return updatesv1.Objects{}, fmt.Errorf("making a bootstrap config of its template: %w", err)
	}
	return objects, nil
}

// instantiateTemplate makes an object of a template. That a template's kind is the object's with "Template" at the end is
// part of Cluster API's contract with providers.
func instantiateTemplate(raw json.RawMessage) (json.RawMessage, error) {
	template, err := updaters.DecodeObject(raw)
	if err != nil || template == nil {
		return nil, err
	}
	object := map[string]any{"apiVersion": template["apiVersion"]}
	kind, _ := template["kind"].(string)
	object["kind"] = strings.TrimSuffix(kind, clusterv1.TemplateSuffix)
	metadata := map[string]any{}
	for _, field := range []string{"labels", "annotations"} {
		if value, found := updaters.LookUp(template, []string{"spec", "template", "metadata", field}); found {
			metadata[field] = value
		}
	}
	if namespace, found := updaters.LookUp(template, []string{"metadata", "namespace"}); found {
		metadata["namespace"] = namespace
	}
	object["metadata"] = metadata
	if spec, found := updaters.LookUp(template, []string{"spec", "template", "spec"}); found {
		object["spec"] = spec
	}
	return json.Marshal(object)
}

// groupLabels are the labels by which Cluster API finds all Machines of the group of an owner, to which a
// Machine or MachineSet belongs.
func groupLabels(owner updatesv1.Owner, member metav1.Object, cluster string) map[string]string {
	labels := map[string]string{clusterv1.ClusterNameLabel: cluster}
	if owner.Kind == capi.MachineDeploymentKind.Kind {
		labels[clusterv1.MachineDeploymentNameLabel] = owner.Name
		return labels
	}
	for _, key := range []string{clusterv1.MachineControlPlaneLabel, clusterv1.MachineControlPlaneNameLabel} {
		if value, ok := member.GetLabels()[key]; ok {
			labels[key] = value
		}
	}
	return labels
}

// isOfGroup reports whether a Machine with the labels of an owner's group belongs to it.
func isOfGroup(machine metav1.Object, owner updatesv1.Owner) bool {
	own := ownerOf(machine)
	switch {
	case owner.Kind == capi.MachineDeploymentKind.Kind:
		return !capi.IsControlPlane(machine)
	case strings.HasPrefix(owner.APIVersion, clusterv1.GroupVersion.Group+"/"):
		return own == owner
	}
	return capi.IsControlPlane(machine) || owner.Kind == "" // Nobody knows more of that owner.
}

// ownedBy returns the Machines that a MachineSet controls.
func ownedBy(machines []metav1.PartialObjectMetadata, set *clusterv1.MachineSet) []metav1.PartialObjectMetadata {
	var owned []metav1.PartialObjectMetadata
	for i := range machines {
		ref := metav1.GetControllerOf(&machines[i])
		if ref != nil && ref.Kind == "MachineSet" && ref.Name == set.Name {
			owned = append(owned, machines[i])
		}
	}
	return owned
}

// namesOf returns the names of Machines, sorted.
func namesOf(machines []metav1.PartialObjectMetadata) []updatesv1.ObjectName {
	names := make([]updatesv1.ObjectName, 0, len(machines))
	for i := range machines {
		names = append(names, updatesv1.ObjectName{Namespace: machines[i].Namespace, Name: machines[i].Name})
	}
	slices.SortFunc(names, func(a, b updatesv1.ObjectName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return names
}

// ownerOf returns the owner of a Machine or MachineSet as far as the object tells it. For a control plane
// Machine without a controller that is only the name, by Cluster API's label.
func ownerOf(object metav1.Object) updatesv1.Owner {
	if set, ok := object.(*clusterv1.MachineSet); ok {
		return OwnerFrom(capi.OwnerThrough(set))
	}
	if owner, ok := capi.OwnerOf(object); ok {
		return OwnerFrom(owner)
	}
	if name := object.GetLabels()[clusterv1.MachineControlPlaneNameLabel]; name != "" {
		return updatesv1.Owner{Namespace: object.GetNamespace(), Name: name}
	}
	return updatesv1.Owner{}
}

// OwnerFrom returns an owner in the form of the protocol.
func OwnerFrom(owner capi.Owner) updatesv1.Owner {
	return updatesv1.Owner{APIVersion: owner.GroupVersion().String(), Kind: owner.Kind, Namespace: owner.Namespace, Name: owner.Name}
}
