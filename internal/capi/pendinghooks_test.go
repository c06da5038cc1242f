package capi_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
)

func TestPendingHooks(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]struct {
		pending bool
		with    string
	}{
		"":                {with: "UpdateMachine"},
		"UpdateMachine":   {pending: true, with: "UpdateMachine"},
		"Z,UpdateMachine": {pending: true, with: "UpdateMachine,Z"},
		"A,,Z":            {with: "A,UpdateMachine,Z"},
		"UpdateMachines":  {with: "UpdateMachine,UpdateMachines"},
	} {
		object := &metav1.ObjectMeta{Annotations: map[string]string{runtimev1.PendingHooksAnnotation: value}}
		if got := capi.IsHookPending(object, capi.UpdateMachineHook); got != want.pending {
			t.Errorf("%q: pending %t", value, got)
		}
		if got := capi.WithPendingHook(object, capi.UpdateMachineHook); got != want.with {
			t.Errorf("%q: with the hook %q, want %q", value, got, want.with)
		}
		if got := capi.IsUpdating(object); got != want.pending {
			t.Errorf("%q: updating %t", value, got)
		}
	}
	marked := &metav1.ObjectMeta{Annotations: map[string]string{clusterv1.UpdateInProgressAnnotation: ""}}
	if !capi.IsUpdating(marked) || capi.IsUpdating(&metav1.ObjectMeta{}) {
		t.Error("only the mark counts, whatever its value")
	}
}
