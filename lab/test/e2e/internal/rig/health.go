package rig

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/setup"
)

// BrokenCondition is what a HealthCheck looks at.
const BrokenCondition = "example.com/Broken"

// HealthCheck finds the machines of a pool unhealthy that have the condition, at once and however
// many they are.
func HealthCheck(pool string) *clusterv1.MachineHealthCheck {
	all := intstr.FromString("100%")
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: PoolsCluster, Name: pool}}
	check.Spec.ClusterName, check.Spec.Selector = PoolsCluster, *Labelled("pool", pool)
	check.Spec.Checks.UnhealthyMachineConditions = []clusterv1.UnhealthyMachineCondition{{Type: BrokenCondition, Status: metav1.ConditionTrue, TimeoutSeconds: new(int32(0))}}
	check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = &all
	return check
}

// BreakMachine sets the condition that makes a machine unhealthy.
func (p *Plane) BreakMachine(ctx context.Context, t *testing.T, m *clusterv1.Machine) {
	t.Helper()
	p.setBroken(ctx, t, m, metav1.ConditionTrue)
}

// RepairMachine takes back what BreakMachine did.
func (p *Plane) RepairMachine(ctx context.Context, t *testing.T, m *clusterv1.Machine) {
	t.Helper()
	p.setBroken(ctx, t, m, metav1.ConditionFalse)
}

func (p *Plane) setBroken(
	ctx context.Context, t *testing.T, m *clusterv1.Machine, status metav1.ConditionStatus,
) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
	object.SetNamespace(m.Namespace)
	object.SetName(m.Name)
	object.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": BrokenCondition, "status": string(status), "reason": "Broken", "message": "by a test",
		"lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}
	if err := p.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
}

// AwaitHealthCheck has the MachineHealthCheck of a pool look at its machines, and waits until it
// has, twice: the first look may have begun before.
func (p *Plane) AwaitHealthCheck(ctx context.Context, t *testing.T, pool string) {
	t.Helper()
	for range 2 {
		check := HealthCheck(pool)
		if err := p.Client.Get(ctx, client.ObjectKeyFromObject(check), check); err != nil {
			t.Fatal(err)
		}
		const startup = 600
		seconds := startup + int32(check.Generation)
		Patch(ctx, t, p.Client, check, map[string]any{"spec": map[string]any{"checks": map[string]any{"nodeStartupTimeoutSeconds": seconds}}})
		generation := check.Generation
		_, err := setup.Await(ctx, p.Client, &clusterv1.MachineHealthCheckList{}, func(seen *clusterv1.MachineHealthCheck) string {
			if seen.Status.ObservedGeneration < generation {
				return fmt.Sprintf("the MachineHealthCheck of %s has not looked at its machines", pool)
			}
			return ""
		}, setup.Named(pool), client.InNamespace(PoolsCluster))
		if err != nil {
			t.Fatal(err)
		}
	}
}
