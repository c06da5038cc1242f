package doctorcmd

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestIsUnowned has the field managers of KubeadmConfigs as Cluster API v1.11, v1.12 after it, and
// v1.12 alone leave them.
func TestIsUnowned(t *testing.T) {
	t.Parallel()
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: operation, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	const (
		apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
		metadata      = `{"f:metadata":{"f:labels":{}}}`
		spec          = `{"f:spec":{"f:clusterConfiguration":{}}}`
		status        = `{"f:status":{"f:dataSecretName":{}}}`
	)
	for name, test := range map[string]struct {
		kind   string
		fields []metav1.ManagedFieldsEntry
		want   bool
	}{
		"v1.11": {"KubeadmConfig", []metav1.ManagedFieldsEntry{
			entry("capi-kubeadmcontrolplane", apply, metadata), entry("manager", update, spec)}, true},
		"v1.11, then v1.12": {"KubeadmConfig", []metav1.ManagedFieldsEntry{
			entry("capi-kubeadmcontrolplane-metadata", apply, metadata), entry("manager", update, status)}, true},
		"v1.12": {"KubeadmConfig", []metav1.ManagedFieldsEntry{
			entry("capi-kubeadmcontrolplane-metadata", apply, metadata), entry("capi-kubeadmcontrolplane", apply, spec)}, false},
		"another kind": {"RKE2Config", []metav1.ManagedFieldsEntry{entry("manager", update, spec)}, false},
		"hidden":       {"KubeadmConfig", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ManagedFields: test.fields}}
			object.Kind = test.kind
			if got := isUnowned(object); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
	if isUnowned(nil) {
		t.Error("an object that does not exist")
	}
}
