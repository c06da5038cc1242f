package capi

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// UpdateMachineHook is the name of the hook UpdateMachine in the annotation that lists pending
// hooks. The Machine controller calls the hook for a Machine while the annotation names it.
const UpdateMachineHook = "UpdateMachine"

// WithPendingHook returns the value of the annotation that lists pending hooks with one more hook.
// Names in it are sorted, and each is in it once.
func WithPendingHook(object metav1.Object, hook string) string {
	names := append(pendingHooks(object), hook)
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// HasPendingHook reports whether the annotation that lists pending hooks names a hook.
func HasPendingHook(object metav1.Object, hook string) bool {
	return slices.Contains(pendingHooks(object), hook)
}

func pendingHooks(object metav1.Object) []string {
	names := strings.Split(object.GetAnnotations()[runtimev1.PendingHooksAnnotation], ",")
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}
