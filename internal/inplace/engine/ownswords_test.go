package engine

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOwnsWords: whose words a condition has is what managed fields say of its message.
func TestOwnsWords(t *testing.T) {
	t.Parallel()
	const kind = "windlass.dev/UpdateBlocked"
	owns := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, FieldsV1: metav1.NewFieldsV1(
				`{"f:status":{"f:conditions":{"k:{\"type\":\"` + kind + `\"}":` + fields + `}}}`),
		}
	}
	const words, rest = `{".":{},"f:message":{},"f:reason":{},"f:type":{}}`, `{"f:status":{},"f:type":{}}`
	for name, tt := range map[string]struct {
		fields []metav1.ManagedFieldsEntry
		want   bool
	}{
		"not known":         {nil, true},
		"ours, and shared":  {[]metav1.ManagedFieldsEntry{owns("manager", rest), owns("windlass-update", words)}, true},
		"ours before":       {[]metav1.ManagedFieldsEntry{owns("manager", words), owns("windlass-update", rest)}, false},
		"another's":         {[]metav1.ManagedFieldsEntry{owns("manager", words)}, false},
		"not to be read":    {[]metav1.ManagedFieldsEntry{{Manager: "windlass-update", FieldsV1: metav1.NewFieldsV1(`[`)}}, false},
		"of an atomic list": {[]metav1.ManagedFieldsEntry{{Manager: "windlass-update", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{}}}`)}}, false},
	} {
		if got := ownsWords(tt.fields, "windlass-update", kind); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
