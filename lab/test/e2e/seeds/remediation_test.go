package seeds_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
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
				if err := p.Client.Create(ctx, rig.HealthCheck(pool)); err != nil {
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

// testPauses has a machine turn unhealthy while its updater is at work. Nothing happens to it until
// the update has ended; then it is replaced, once.
func (p *plane) testPauses(ctx context.Context, t *testing.T, w way, pool string) {
	t.Helper()
	u := p.NewUpdater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: rig.Labelled("pool", pool)})
	u.Behave(ctx, t, `{"updater": {"mode": "Stall"}}`)
	uid := p.OnlyMachine(ctx, t, pool).UID
	w.ask(ctx, t, pool)
	m := p.AwaitMachine(ctx, t, pool, "waiting until the updater of "+pool+" is at work", w.atWork)
	p.BreakMachine(ctx, t, m)
	p.AwaitHealthCheck(ctx, t, pool)
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
	p.AwaitHealthCheck(ctx, t, pool)
	ever := p.Census(rig.PoolsCluster, func(m *clusterv1.Machine) bool { return m.Labels["pool"] == pool })
	if len(ever.All) != 2 || len(ever.Deleted) != 1 {
		t.Errorf("there were %d Machines, and %d of them were deleted, want 2 and 1", len(ever.All), len(ever.Deleted))
	}
}
