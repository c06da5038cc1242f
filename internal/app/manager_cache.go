package app

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool/machineset"
)

// managerMachine returns a cache's transformation of Machines: [SlimMachine], and trimMachine.
func managerMachine(o InPlaceUpgrades) toolscache.TransformFunc {
	slim := SlimMachine(o)
	return func(object any) (any, error) {
		if m, ok := object.(*clusterv1.Machine); ok {
			return trimMachine(m), nil
		}
		return slim(object)
	}
}

// trimMachine drops which fields each manager owns, except for the manager of MachineSets, which reads
// what it owns. The entries stay, so that a reader sees whether they are there. Nothing else in this
// program reads managed fields of Machines from the cache. A writer of managed fields reads
// them from the API server first.
func trimMachine(m *clusterv1.Machine) *clusterv1.Machine {
	for i := range m.ManagedFields {
		if !isSetEntry(m.ManagedFields[i]) {
			m.ManagedFields[i].FieldsV1 = nil
		}
	}
	return m
}

func isSetEntry(e metav1.ManagedFieldsEntry) bool {
	return slices.Contains(machineset.Managers, e.Manager) && e.Subresource == ""
}

// trimMachineObject is what trimMachine is for the infrastructure and the bootstrap config of a Machine.
// It is a cache's transformation, and leaves all other objects unchanged. Without it, managed fields
// are more than half of these objects, each of which has an object for every field that is owned.
func trimMachineObject(object any) (any, error) {
	o, ok := object.(*unstructured.Unstructured)
	if !ok || !isOwnedByMachine(o) {
		return object, nil
	}
	entries, _, err := unstructured.NestedFieldNoCopy(o.Object, "metadata", "managedFields")
	all, ok := entries.([]any)
	if err != nil || !ok {
		return object, nil //nolint:nilerr // There are no managed fields.
	}
	for _, e := range all {
		entry, ok := e.(map[string]any)
		if !ok {
			continue
		}
		name, _ := entry["manager"].(string)
		subresource, _ := entry["subresource"].(string)
		if !isSetEntry(metav1.ManagedFieldsEntry{Manager: name, Subresource: subresource}) {
			delete(entry, "fieldsV1")
		}
	}
	return object, nil
}

func isOwnedByMachine(o *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(o)
	if owner == nil || owner.Kind != "Machine" {
		return false
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version.Group == clusterv1.GroupVersion.Group
}
