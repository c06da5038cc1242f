package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestTrimManagedFields keeps the entries of managed fields, and what the manager of MachineSets owns.
func TestTrimManagedFields(t *testing.T) {
	t.Parallel()
	const all = `{"f:spec":{"f:clusterName":{}}}`
	fields := func(raws ...string) []metav1.ManagedFieldsEntry {
		entries := []metav1.ManagedFieldsEntry{
			{Manager: "capi-machineset", Operation: metav1.ManagedFieldsOperationApply},
			{Manager: "capi-machineset-metadata", Operation: metav1.ManagedFieldsOperationApply},
			{Manager: "manager", Operation: metav1.ManagedFieldsOperationUpdate},
			{Manager: "capi-machineset", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status"},
		}
		for i, raw := range raws {
			if raw != "" {
				entries[i].FieldsV1 = metav1.NewFieldsV1(raw)
			}
		}
		return entries
	}
	whole, trimmed := fields(all, all, all, all), fields(all, all, "", "")
	machine := func(fields []metav1.ManagedFieldsEntry) *clusterv1.Machine {
		return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", ManagedFields: fields}}
	}
	object := func(owner string, fields []metav1.ManagedFieldsEntry) *unstructured.Unstructured {
		m := machine(fields)
		if owner != "" {
			m.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: owner, Controller: new(true),
			}}
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
		if err != nil {
			t.Fatal(err)
		}
		return &unstructured.Unstructured{Object: content}
	}
	for name, tt := range map[string]struct{ in, want any }{
		"a Machine":               {machine(whole), machine(trimmed)},
		"an object of a Machine":  {object("Machine", whole), object("Machine", trimmed)},
		"an object of a Cluster":  {object("Cluster", whole), object("Cluster", whole)},
		"an object of nobody":     {object("", whole), object("", whole)},
		"no managed fields":       {object("Machine", nil), object("Machine", nil)},
		"neither object nor kind": {"text", "text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transform := trimMachineObject
			if _, ok := tt.in.(*clusterv1.Machine); ok {
				transform = managerMachine(InPlaceUpgrades{})
			}
			got, err := transform(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
