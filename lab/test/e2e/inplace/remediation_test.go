package inplace_test

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
)

const (
	// brokenCondition is what the MachineHealthChecks of this test look at.
	brokenCondition = "example.com/Broken"
	nextVersion     = "v1.31.1"
)

// way is one of the two ways to ask for an update.
type way struct {
	name string
	ask  func(ctx context.Context, t *testing.T, pool string)
	// atWork says why no updater is at work on a Machine yet.
	atWork func(m *clusterv1.Machine) string
	// replacement is the version of a Machine that takes the place of a failed one.
	replacement string
}

// TestRemediation updates machines that MachineHealthChecks look after, both by Cluster API's hooks
// and by annotation. A machine that turns unhealthy in the middle is replaced after the end, and
// one whose update failed finally is replaced once.
//
//nolint:tparallel // It must not begin beside another plane.
func TestRemediation(t *testing.T) {
	ctx, p := start(t)
	ways := []way{
		{
			name: "hook", replacement: nextVersion,
			ask: func(ctx context.Context, t *testing.T, pool string) {
				t.Helper()
				p.send(ctx, t, pool, nextVersion)
			},
			atWork: func(m *clusterv1.Machine) string {
				return missing(m, v1alpha1.UpdateProgressAnnotation, `"phase":"Updating"`)
			},
		},
		{
			name: "annotation", replacement: firstVersion,
			ask: func(ctx context.Context, t *testing.T, pool string) {
				t.Helper()
				to := v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeTo
				annotate(ctx, t, p.client, p.onlyMachine(ctx, t, pool), map[string]any{to: "version=" + nextVersion})
			},
			atWork: func(m *clusterv1.Machine) string {
				return missing(m, v1alpha1.InPlaceUpgradeAnnotation, `"phase":"Updating"`)
			},
		},
	}
	var pools []pool
	for _, w := range ways {
		for _, story := range []string{"pauses", "fails"} {
			pools = append(pools, pool{Name: w.name + "-" + story, Replicas: 1, MaxUnavailable: 1, Policy: v1alpha1.UpdatePolicySpec{
				Fallback: v1alpha1.FallbackNone, MaxAttempts: 1, OnFailure: v1alpha1.FailureRemediate,
			}})
		}
	}
	p.createPools(ctx, t, poolsCluster, pools)
	for _, pool := range pools {
		p.awaitPool(ctx, t, pool.Name, firstVersion, 1)
		if err := p.client.Create(ctx, healthCheck(pool.Name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range ways {
		t.Run(w.name+" pauses", func(t *testing.T) { t.Parallel(); p.testPauses(ctx, t, w, w.name+"-pauses") })
		t.Run(w.name+" fails", func(t *testing.T) { t.Parallel(); p.testReplacedOnce(ctx, t, w, w.name+"-fails") })
	}
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
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: poolsCluster, Name: pool}}
	check.Spec.ClusterName, check.Spec.Selector = poolsCluster, *labelled("pool", pool)
	check.Spec.Checks.UnhealthyMachineConditions = []clusterv1.UnhealthyMachineCondition{{Type: brokenCondition, Status: metav1.ConditionTrue, TimeoutSeconds: new(int32(0))}}
	check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = &all
	return check
}

// testPauses has a machine turn unhealthy while its updater is at work. Nothing happens to it until
// the update has ended; then it is replaced, once.
func (p *plane) testPauses(ctx context.Context, t *testing.T, w way, pool string) {
	t.Helper()
	u := p.updater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: labelled("pool", pool)})
	u.behave(ctx, t, `{"updater": {"mode": "Stall"}}`)
	uid := p.onlyMachine(ctx, t, pool).UID
	w.ask(ctx, t, pool)
	m := p.awaitMachine(ctx, t, pool, "waiting until the updater of "+pool+" is at work", w.atWork)
	p.breakMachine(ctx, t, m)
	p.awaitHealthCheck(ctx, t, pool)
	if m = p.onlyMachine(ctx, t, pool); m.UID != uid || !m.DeletionTimestamp.IsZero() || w.atWork(m) != "" {
		t.Fatalf("the Machine is replaced in the middle of its update: %s, deleted %v, annotations %v", m.UID, m.DeletionTimestamp, m.Annotations)
	}
	if c := conditionOf(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition); c != "" {
		t.Errorf("its owner was told to replace it: %s is %s", clusterv1.MachineOwnerRemediatedCondition, c)
	}
	u.behave(ctx, t, `{"updater": {"mode": "Normal"}}`)
	p.awaitReplaced(ctx, t, pool, uid, w.replacement)
	if done := u.stats(ctx, t).Machines[poolsCluster+"/"+m.Name].Completed; done != 1 {
		t.Errorf("the update was completed %d times before the Machine was replaced", done)
	}
}

// testReplacedOnce has the update of a machine fail finally. It is replaced, and its successor
// stays.
func (p *plane) testReplacedOnce(ctx context.Context, t *testing.T, w way, pool string) {
	t.Helper()
	u := p.updater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: labelled("pool", pool)})
	u.behave(ctx, t, `{"updater": {"mode": "Fail"}}`)
	uid := p.onlyMachine(ctx, t, pool).UID
	w.ask(ctx, t, pool)
	p.awaitReplaced(ctx, t, pool, uid, w.replacement)
}

// awaitReplaced waits until another machine has taken the place of a pool's only one, and sees that
// nothing takes its place.
func (p *plane) awaitReplaced(ctx context.Context, t *testing.T, pool string, uid types.UID, version string) {
	t.Helper()
	p.awaitMachine(ctx, t, pool, "waiting until the machine of "+pool+" is replaced", func(m *clusterv1.Machine) string {
		if m.UID == uid {
			return fmt.Sprintf("it is the same; its annotations are %v, its conditions %+v", m.Annotations, m.Status.Conditions)
		}
		return notAt(m, version)
	})
	p.awaitHealthCheck(ctx, t, pool)
	ever := p.census(poolsCluster, func(m *clusterv1.Machine) bool { return m.Labels["pool"] == pool })
	if len(ever.all) != 2 || len(ever.deleted) != 1 {
		t.Errorf("there were %d Machines, and %d of them were deleted, want 2 and 1", len(ever.all), len(ever.deleted))
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
	if err := p.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
}

// awaitHealthCheck has the MachineHealthCheck of a pool look at its machines, and waits until it
// has, twice: the first look may have begun before.
func (p *plane) awaitHealthCheck(ctx context.Context, t *testing.T, pool string) {
	t.Helper()
	for range 2 {
		check := healthCheck(pool)
		if err := p.client.Get(ctx, client.ObjectKeyFromObject(check), check); err != nil {
			t.Fatal(err)
		}
		const startup = 600
		seconds := startup + int32(check.Generation)
		patch(ctx, t, p.client, check, map[string]any{"spec": map[string]any{"checks": map[string]any{"nodeStartupTimeoutSeconds": seconds}}})
		generation := check.Generation
		_, err := setup.Await(ctx, p.client, &clusterv1.MachineHealthCheckList{}, func(seen *clusterv1.MachineHealthCheck) string {
			if seen.Status.ObservedGeneration < generation {
				return fmt.Sprintf("the MachineHealthCheck of %s has not looked at its machines", pool)
			}
			return ""
		}, setup.Named(pool), client.InNamespace(poolsCluster))
		if err != nil {
			t.Fatal(err)
		}
	}
}
