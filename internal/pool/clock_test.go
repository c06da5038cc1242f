package pool_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/record"
)

// TestWaitsFromTheFutureEnd: what a clock has recorded that is 12 hours ahead does not make a wait
// longer than it is, from when it is first read on.
func TestWaitsFromTheFutureEnd(t *testing.T) {
	t.Parallel()
	const ahead = 12 * time.Hour
	future := metav1.NewTime(epoch.Add(ahead))
	has := func(object conditions.Setter, kind string, status metav1.ConditionStatus) {
		conditions.Set(object, metav1.Condition{
			Type: kind, Status: status, Reason: "R", LastTransitionTime: future,
		})
	}
	rollout := func(t failer, limits pool.Limits) *world {
		t.Helper()
		w := newWorld(3, 0, 1)
		w.limits = &limits
		w.settle(t)
		for _, m := range w.machines {
			m.CreationTimestamp = metav1.NewTime(epoch)
		}
		return w
	}
	progress := func(t failer, w *world, c *record.Clock, now time.Time) pool.Progress {
		t.Helper()
		g := w.group()
		g.Clock, g.Now = c, now
		for _, set := range g.MachineSets {
			set.CreationTimestamp = metav1.NewTime(epoch.Add(-time.Hour))
		}
		p, err := pool.ProgressOf(g)
		if err != nil {
			t.Fatalf("ProgressOf: %v", err)
		}
		return p
	}
	remediates := func(c *record.Clock, now time.Time, options ...machineOption) bool {
		f := factsOf(msSet(1), msMachine("m", append(options, toRemediate)...))
		f.Clock, f.Now, f.Policy = c, now, policy.Policy{HandOver: true, Soak: time.Minute}
		plan, err := f.Remediate()
		return err == nil && len(plan.Delete) == 1
	}
	for name, tt := range map[string]struct {
		lasts time.Duration
		ended func(failer, *record.Clock, time.Time) bool
	}{
		"the deadline of a group": {time.Minute, func(t failer, c *record.Clock, now time.Time) bool {
			w := rollout(t, pool.Limits{GroupDeadline: time.Minute})
			has(w.md, clusterv1.RollingOutCondition, metav1.ConditionTrue)
			return progress(t, w, c, now).Late
		}},
		"the deadline of a Machine": {time.Minute, func(t failer, c *record.Clock, now time.Time) bool {
			w := rollout(t, pool.Limits{MachineDeadline: time.Minute})
			has(w.machines[w.names()[0]], clusterv1.MachineAvailableCondition, metav1.ConditionFalse)
			return len(progress(t, w, c, now).Overdue) == 1
		}},
		"the soak": {time.Minute, func(t failer, c *record.Clock, now time.Time) bool {
			w := rollout(t, pool.Limits{Soak: time.Minute})
			has(w.machines[w.names()[0]], clusterv1.MachineAvailableCondition, metav1.ConditionTrue)
			return progress(t, w, c, now).Done == 3
		}},
		"a Machine without a Node": {20 * time.Minute, func(t failer, c *record.Clock, now time.Time) bool {
			w := settledGroup(t, true)
			toVersion("v1.31.0")(w.md)
			m := w.machines[w.names()[0]]
			withoutNode(m)
			m.CreationTimestamp = future
			g := w.group()
			g.Clock, g.Now = c, now
			coverage := map[string]pool.Coverage{}
			for _, set := range g.MachineSets {
				coverage[set.Name] = pool.Coverage{Answer: pool.AnswerYes}
			}
			plan, err := pool.Decide(g, coverage)
			return err == nil && plan.Blocked() != nil
		}},
		"a held remediation": {time.Minute, func(_ failer, c *record.Clock, now time.Time) bool {
			return remediates(c, now, updateMarked, func(m *clusterv1.Machine) {
				has(m, clusterv1.MachineUpdatingCondition, metav1.ConditionTrue)
			})
		}},
		"a verdict": {30 * time.Second, func(_ failer, c *record.Clock, now time.Time) bool {
			return remediates(c, now, machineMark(v1alpha1.LastUpdateAnnotation,
				`{"ended":"`+future.UTC().Format(time.RFC3339)+`"}`))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := record.NewClock()
			for _, after := range []time.Duration{0, tt.lasts - time.Second, tt.lasts, ahead + time.Second} {
				if got := tt.ended(t, c, epoch.Add(after)); got != (after >= tt.lasts) {
					t.Errorf("after %s of %s it has ended: %v", after, tt.lasts, got)
				}
			}
		})
	}
}
