package seeds_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// brokenCondition is what the MachineHealthChecks of this test look at.
const brokenCondition = "example.com/Broken"

// way is one of the two ways to ask for an update.
type way struct {
	name string
	ask  func(ctx context.Context, t *testing.T, pool string)
	// atWork says why no updater is at work on a Machine yet.
	atWork func(m *clusterv1.Machine) string
	// replacement is the version of a Machine that takes the place of a failed one.
	replacement string
}

// remediationScenarios have machines updated that MachineHealthChecks look after, both by Cluster
// API's hooks and by annotation. A machine that turns unhealthy in the middle is replaced after the
// end, and one whose update failed finally is replaced once.
func (p *plane) remediationScenarios() []poolScenario {
	ways := []way{
		{
			name: "hook", replacement: nextVersion,
			ask: func(ctx context.Context, t *testing.T, pool string) {
				t.Helper()
				p.Send(ctx, t, pool, nextVersion)
			},
			atWork: func(m *clusterv1.Machine) string {
				return missing(m, v1alpha1.UpdateProgressAnnotation, `"phase":"Updating"`)
			},
		},
		{
			name: "annotation", replacement: rig.FirstVersion,
			ask: func(ctx context.Context, t *testing.T, pool string) {
				t.Helper()
				to := v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeTo
				rig.AnnotateObject(ctx, t, p.Client, p.OnlyMachine(ctx, t, pool), map[string]any{to: "version=" + nextVersion})
			},
			atWork: func(m *clusterv1.Machine) string {
				return missing(m, v1alpha1.InPlaceUpgradeAnnotation, `"phase":"Updating"`)
			},
		},
	}
	var scenarios []poolScenario
	for _, w := range ways {
		for story, test := range map[string]func(context.Context, *testing.T, way, string){"pauses": p.testPauses, "fails": p.testReplacedOnce} {
			pool := rig.Pool{Name: w.name + "-" + story, Replicas: 1, MaxUnavailable: 1, Policy: v1alpha1.UpdatePolicySpec{
				Fallback: v1alpha1.FallbackNone, MaxAttempts: 1, OnFailure: v1alpha1.FailureRemediate,
			}}
			scenarios = append(scenarios, poolScenario{pool, func(ctx context.Context, t *testing.T, pool string) {
				t.Helper()
				if err := p.Client.Create(ctx, healthCheck(pool)); err != nil {
					t.Fatal(err)
				}
				test(ctx, t, w, pool)
			}})
		}
	}
	return scenarios
}

func missing(m *clusterv1.Machine, annotation, text string) string {
	if strings.Contains(m.Annotations[annotation], text) {
		return ""
	}
	return fmt.Sprintf("the annotations of Machine %s are %v", m.Name, m.Annotations)
}

// healthCheck finds the machines of a pool unhealthy that have the condition, at once and however
// many they are.
func healthCheck(pool string) *clusterv1.MachineHealthCheck {
	all := intstr.FromString("100%")
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: rig.PoolsCluster, Name: pool}}
	check.Spec.ClusterName, check.Spec.Selector = rig.PoolsCluster, *rig.Labelled("pool", pool)
	check.Spec.Checks.UnhealthyMachineConditions = []clusterv1.UnhealthyMachineCondition{{Type: brokenCondition, Status: metav1.ConditionTrue, TimeoutSeconds: new(int32(0))}}
	check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = &all
	return check
}

// testPauses has a machine turn unhealthy while its updater is at work. Nothing happens to it until
// the update has ended; then it is replaced, once.
func (p *plane) testPauses(ctx context.Context, t *testing.T, w way, pool string) {
	t.Helper()
	u := p.NewUpdater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: rig.Labelled("pool", pool)})
	u.Behave(ctx, t, `{"updater": {"mode": "Stall"}}`)
	uid := p.OnlyMachine(ctx, t, pool).UID
	w.ask(ctx, t, pool)
	m := p.AwaitMachine(ctx, t, pool, "waiting until the updater of "+pool+" is at work", w.atWork)
	p.breakMachine(ctx, t, m)
	p.awaitHealthCheck(ctx, t, pool)
	if m = p.OnlyMachine(ctx, t, pool); m.UID != uid || !m.DeletionTimestamp.IsZero() || w.atWork(m) != "" {
		t.Fatalf("the Machine is replaced in the middle of its update: %s, deleted %v, annotations %v", m.UID, m.DeletionTimestamp, m.Annotations)
	}
	if c := rig.ConditionOf(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition); c != "" {
		t.Errorf("its owner was told to replace it: %s is %s", clusterv1.MachineOwnerRemediatedCondition, c)
	}
	u.Behave(ctx, t, `{"updater": {"mode": "Normal"}}`)
	p.awaitReplaced(ctx, t, pool, uid, w.replacement)
	if done := u.Stats(ctx, t).Machines[rig.PoolsCluster+"/"+m.Name].Completed; done != 1 {
		t.Errorf("the update was completed %d times before the Machine was replaced", done)
	}
}

// testReplacedOnce has the update of a machine fail finally. It is replaced, and its successor
// stays.
func (p *plane) testReplacedOnce(ctx context.Context, t *testing.T, w way, pool string) {
	t.Helper()
	u := p.NewUpdater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: rig.Labelled("pool", pool)})
	u.Behave(ctx, t, `{"updater": {"mode": "Fail"}}`)
	uid := p.OnlyMachine(ctx, t, pool).UID
	w.ask(ctx, t, pool)
	p.awaitReplaced(ctx, t, pool, uid, w.replacement)
}

// awaitReplaced waits until another machine has taken the place of a pool's only one, and sees that
// nothing takes its place.
func (p *plane) awaitReplaced(ctx context.Context, t *testing.T, pool string, uid types.UID, version string) {
	t.Helper()
	p.AwaitMachine(ctx, t, pool, "waiting until the machine of "+pool+" is replaced", func(m *clusterv1.Machine) string {
		if m.UID == uid {
			return fmt.Sprintf("it is the same; its annotations are %v, its conditions %+v", m.Annotations, m.Status.Conditions)
		}
		return rig.NotAt(m, version)
	})
	p.awaitHealthCheck(ctx, t, pool)
	ever := p.Census(rig.PoolsCluster, func(m *clusterv1.Machine) bool { return m.Labels["pool"] == pool })
	if len(ever.All) != 2 || len(ever.Deleted) != 1 {
		t.Errorf("there were %d Machines, and %d of them were deleted, want 2 and 1", len(ever.All), len(ever.Deleted))
	}
}

// breakMachine sets the condition that makes a machine unhealthy.
func (p *plane) breakMachine(ctx context.Context, t *testing.T, m *clusterv1.Machine) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
	object.SetNamespace(m.Namespace)
	object.SetName(m.Name)
	object.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": brokenCondition, "status": "True", "reason": "Broken", "message": "by a test", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}
	if err := p.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
}

// awaitHealthCheck has the MachineHealthCheck of a pool look at its machines, and waits until it
// has, twice: the first look may have begun before.
func (p *plane) awaitHealthCheck(ctx context.Context, t *testing.T, pool string) {
	t.Helper()
	for range 2 {
		check := healthCheck(pool)
		if err := p.Client.Get(ctx, client.ObjectKeyFromObject(check), check); err != nil {
			t.Fatal(err)
		}
		const startup = 600
		seconds := startup + int32(check.Generation)
		rig.Patch(ctx, t, p.Client, check, map[string]any{"spec": map[string]any{"checks": map[string]any{"nodeStartupTimeoutSeconds": seconds}}})
		generation := check.Generation
		_, err := setup.Await(ctx, p.Client, &clusterv1.MachineHealthCheckList{}, func(seen *clusterv1.MachineHealthCheck) string {
			if seen.Status.ObservedGeneration < generation {
				return fmt.Sprintf("the MachineHealthCheck of %s has not looked at its machines", pool)
			}
			return ""
		}, setup.Named(pool), client.InNamespace(rig.PoolsCluster))
		if err != nil {
			t.Fatal(err)
		}
	}
}
