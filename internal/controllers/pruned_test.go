package controllers

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestPrunedFields holds that a policy which keeps machines never comes to replace them because an older
// CRD has dropped one of its fields: the guard is needed all the same, or the policy is invalid.
func TestPrunedFields(t *testing.T) {
	t.Parallel()
	share := intstr.FromInt32(1)
	whole := newPolicy("keep", v1alpha1.UpdateTarget{ClusterName: "prod", MachineDeployments: []v1alpha1.MachineDeploymentName{"workers"}})
	whole.Spec.Fallback, whole.Spec.OnDelete, whole.Spec.HandOver = v1alpha1.FallbackNone, v1alpha1.OnDeleteWait, v1alpha1.HandOverMachine
	whole.Spec.OnFailure, whole.Spec.MaxFailures, whole.Spec.Drain = v1alpha1.FailurePause, 1, true
	whole.Spec.Canary, whole.Spec.Partition, whole.Spec.Batches = &share, &share, []intstr.IntOrString{share}
	whole.Spec.MaxInFlight, whole.Spec.MaxAttempts, whole.Spec.AttemptTimeoutSeconds, whole.Spec.SoakSeconds = 1, 1, 1, 1
	whole.Spec.MachineDeadlineSeconds, whole.Spec.GroupDeadlineSeconds = 1, 1
	whole.Spec.Order = v1alpha1.UpdateOrder{Labels: []string{"rack"}}
	whole.Spec.IgnorePaths = []v1alpha1.IgnorePath{{Object: v1alpha1.IgnoreMachine, Path: "/spec/a"}}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(whole)
	if err != nil {
		t.Fatal(err)
	}
	paths := [][]string{{"none"}}
	spec, _, _ := unstructured.NestedMap(fields, "spec")
	for name := range spec {
		paths = append(paths, []string{"spec", name})
	}
	if len(spec) < 18 {
		t.Errorf("the policy has the fields %v only", spec)
	}
	for _, path := range paths {
		t.Run(path[len(path)-1], func(t *testing.T) {
			t.Parallel()
			pruned := (&unstructured.Unstructured{Object: fields}).DeepCopy()
			unstructured.RemoveNestedField(pruned.Object, path...)
			policy := &v1alpha1.UpdatePolicy{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(pruned.Object, policy); err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, policy, newCluster("prod", ""), newDeployment("prod", "workers"))
			w.reconcile(t)
			status := w.status(t, "keep")
			guarding := meta.FindStatusCondition(status.Conditions, v1alpha1.GuardingCondition)
			ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ReadyCondition)
			if guarding.Reason == v1alpha1.NotNeededReason && ready.Reason == v1alpha1.UpdatePolicyValidReason {
				t.Errorf("without %v the policy is %+v, %+v", path, ready, guarding)
			}
		})
	}
}
