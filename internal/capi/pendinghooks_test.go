package capi_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
)

func TestWithPendingHook(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"":                "UpdateMachine",
		"UpdateMachine":   "UpdateMachine",
		"Z,UpdateMachine": "UpdateMachine,Z",
		"A,,Z":            "A,UpdateMachine,Z",
		"UpdateMachines":  "UpdateMachine,UpdateMachines",
	} {
		object := &metav1.ObjectMeta{Annotations: map[string]string{runtimev1.PendingHooksAnnotation: value}}
		if got := capi.WithPendingHook(object, capi.UpdateMachineHook); got != want {
			t.Errorf("%q: with the hook %q, want %q", value, got, want)
		}
	}
}
