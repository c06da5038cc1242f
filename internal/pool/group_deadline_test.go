package pool_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
)

// TestGroupDeadline: from when on the deadline of a group of an hour counts.
func TestGroupDeadline(t *testing.T) {
	t.Parallel()
	type group = pool.Group
	ago := func(g *group, d time.Duration) time.Time { return g.Now.Add(-d) }
	has := func(kind string, status metav1.ConditionStatus, reason pool.Reason, d time.Duration,
	) func(*group) {
		return func(g *group) {
			conditions.Set(g.MachineDeployment, metav1.Condition{
				Type: kind, Status: status, Reason: string(reason),
				LastTransitionTime: metav1.NewTime(ago(g, d)),
			})
		}
	}
	unknown, failures := pool.ReasonCoverageUnknown, pool.ReasonMaxFailures
	rolling := func(d time.Duration) func(*group) {
		return has(clusterv1.RollingOutCondition, metav1.ConditionTrue, "R", d)
	}
	blocked := func(reason pool.Reason) func(*group) {
		return has(v1alpha1.UpdateBlockedCondition, metav1.ConditionTrue, reason, 90*time.Minute)
	}
	resumed := func(d time.Duration) func(*group) {
		return func(g *group) {
			g.MachineDeployment.Annotations = map[string]string{
				v1alpha1.RolloutResumedAnnotation: ago(g, d).UTC().Format(time.RFC3339),
			}
		}
	}
	created := func(g *group) {
		for _, set := range g.MachineSets {
			set.CreationTimestamp = metav1.NewTime(ago(g, 30*time.Minute))
		}
	}
	const hours = 2 * time.Hour
	longAgo := rolling(hours)
	for name, tt := range map[string]struct {
		facts []func(*group)
		late  bool
		// resumes says that the rollout continues from now on, if nothing blocks it.
		resumes bool
	}{
		"no rollout is reported":  {},
		"not yet":                 {facts: []func(*group){rolling(59 * time.Minute)}},
		"too long":                {facts: []func(*group){longAgo}, late: true},
		"the MachineSet is newer": {facts: []func(*group){longAgo, created}},
		"a pause has ended": {facts: []func(*group){
			longAgo, has(clusterv1.PausedCondition, metav1.ConditionFalse, "P", time.Minute),
		}},
		"a partition":    {facts: []func(*group){longAgo, blocked(pool.ReasonPartition)}, resumes: true},
		"failures":       {facts: []func(*group){longAgo, blocked(failures)}, resumes: true},
		"not covered":    {facts: []func(*group){longAgo, blocked(pool.ReasonNotCovered)}, resumes: true},
		"no answer":      {facts: []func(*group){longAgo, blocked(unknown)}, late: true},
		"the deadline":   {facts: []func(*group){longAgo, blocked(pool.ReasonGroupDeadline)}, late: true},
		"another reason": {facts: []func(*group){longAgo, blocked("UpdateFailed")}, late: true},
		"not blocked any more": {facts: []func(*group){
			longAgo, has(v1alpha1.UpdateBlockedCondition, metav1.ConditionFalse, "Partition", hours),
		}, late: true},
		"resumed":               {facts: []func(*group){longAgo, resumed(59 * time.Minute)}},
		"resumed long ago":      {facts: []func(*group){longAgo, resumed(hours)}, late: true},
		"resumed in the future": {facts: []func(*group){longAgo, resumed(-time.Minute)}, late: true},
		"resumed before the hold": {facts: []func(*group){
			longAgo, blocked(pool.ReasonPartition), resumed(100 * time.Minute),
		}, resumes: true},
		"resumed in the second of the hold": {facts: []func(*group){
			longAgo, blocked(pool.ReasonPartition), resumed(90 * time.Minute),
		}, resumes: true},
		"resumed after the hold": {facts: []func(*group){
			longAgo, blocked(pool.ReasonPartition), resumed(time.Minute),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(3, 0, 1)
			w.settle(t)
			g := w.group()
			g.Limits = &pool.Limits{GroupDeadline: time.Hour}
			for _, set := range g.MachineSets {
				set.CreationTimestamp = metav1.NewTime(ago(&g, hours))
			}
			for _, fact := range tt.facts {
				fact(&g)
			}
			p, err := pool.ProgressOf(g)
			if err != nil || p.Late != tt.late {
				t.Errorf("the rollout is late: %v, want %v, %v", p.Late, tt.late, err)
			}
			left := pool.Plan{Old: []pool.SetPlan{{Current: g.MachineSets[0]}}}
			if got := g.Resumes(left, nil); got != tt.resumes {
				t.Errorf("the rollout continues: %v, want %v", got, tt.resumes)
			}
			answered := tt.resumes && name != "not covered"
			if got := g.Resumes(left, &pool.Decision{Reason: unknown}); got != answered {
				t.Errorf("without an answer the rollout continues: %v, want %v", got, answered)
			}
			if g.Resumes(left, &pool.Decision{Reason: pool.ReasonPartition}) {
				t.Error("a rollout that is blocked continues")
			}
			if g.Resumes(pool.Plan{}, nil) {
				t.Error("a rollout with nothing left continues")
			}
			g.Limits = &pool.Limits{}
			if g.Resumes(left, nil) {
				t.Error("a group without a deadline needs a record")
			}
		})
	}
}

// TestRetriesLate: only the deadline of the group is answered by a retry.
func TestRetriesLate(t *testing.T) {
	t.Parallel()
	for _, reason := range []pool.Reason{pool.ReasonGroupDeadline, pool.ReasonPartition} {
		want := reason == pool.ReasonGroupDeadline
		md := &clusterv1.MachineDeployment{}
		conditions.Set(md, metav1.Condition{
			Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionTrue, Reason: string(reason),
		})
		if pool.RetriesLate(md) {
			t.Errorf("%s: nobody asks", reason)
		}
		md.Annotations = map[string]string{v1alpha1.UpdateRetryAnnotation: ""}
		if got := pool.RetriesLate(md); got != want {
			t.Errorf("%s is answered: %v", reason, got)
		}
	}
}
