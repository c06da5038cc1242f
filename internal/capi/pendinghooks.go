package capi

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// UpdateMachineHook is the name of the hook UpdateMachine in the annotation that lists pending
// hooks. The Machine controller calls the hook for a Machine while the annotation names it.
const UpdateMachineHook = "UpdateMachine"

// IsHookPending reports whether the annotation of an object that lists pending hooks names a hook.
func IsHookPending(object metav1.Object, hook string) bool {
	return slices.Contains(pendingHooks(object), hook)
}

// WithPendingHook returns the value of the annotation that lists pending hooks with one more hook.
// Names in it are sorted, and each is in it once.
func WithPendingHook(object metav1.Object, hook string) string {
	names := append(pendingHooks(object), hook)
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

func pendingHooks(object metav1.Object) []string {
	names := strings.Split(object.GetAnnotations()[runtimev1.PendingHooksAnnotation], ",")
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// IsUpdating reports whether a Machine is being updated in place, as Cluster API's controllers see
// it: it has the mark of an update, or the hook UpdateMachine is pending. At the begin of an update
// only the mark is there, and at its end only the hook.
func IsUpdating(machine metav1.Object) bool {
	_, marked := machine.GetAnnotations()[clusterv1.UpdateInProgressAnnotation]
	return marked || IsHookPending(machine, UpdateMachineHook)
}
