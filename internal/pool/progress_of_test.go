package pool_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
)

// TestProgressOf: in any order of events the progress that is reported is the one that the limits
// of a kept group are applied to, and its numbers are those of the Machines. A rollout that has
// ended by the limits has nothing in flight.
func TestProgressOf(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.Int32Range(1, 5).Draw(t, "replicas")
		w := newWorld(replicas, rapid.Int32Range(0, 2).Draw(t, "surge"), 1)
		w.keep = rapid.Bool().Draw(t, "keep")
		w.limits = &pool.Limits{
			Canary:    intstr.FromInt32(rapid.Int32Range(0, 2).Draw(t, "canary")),
			Partition: intstr.FromInt32(rapid.Int32Range(0, replicas).Draw(t, "partition")),
			Batches:   []intstr.IntOrString{intstr.FromInt32(rapid.Int32Range(1, 2).Draw(t, "batch"))},
		}
		w.settle(t)
		before := w.names()
		w.md.Spec.Template.Spec.Version = "v1.31.0"
		w.covered["v1.31.0"] = pool.AnswerYes
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			w.random(t)
			p := w.progress(t)
			if int(p.Done) != w.upToDate() || p.Done > p.Touched {
				t.Fatalf("%+v, and %d Machines are up to date:\n%s", p, w.upToDate(), w)
			}
			if !w.keep {
				continue
			}
			w.reconcile(t)
			// A plan may begin moves, which do not change its own allowance.
			p.InFlight, p.Alone = p.Updating, p.Updated == 0
			if diff := cmp.Diff(w.limits.Allow(p), w.plan.Allowance); diff != "" {
				t.Fatalf("the allowance by the report (-) and of the plan (+):\n%s\n%s", diff, w)
			}
		}
		w.settle(t)
		want := pool.Progress{
			Replicas: replicas, Touched: replicas - w.limits.Partition.IntVal,
			Done: replicas - w.limits.Partition.IntVal, Kept: w.keep,
		}
		for _, name := range before {
			if m := w.machines[name]; m != nil && m.Spec.Version == "v1.31.0" {
				want.Updated++
			}
		}
		if diff := cmp.Diff(want, w.progress(t)); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%s", diff, w)
		}
	})
}

// TestProgressOfReplacement: Machines that are created and deleted are in flight.
func TestProgressOfReplacement(t *testing.T) {
	t.Parallel()
	w := newWorld(3, 0, 1)
	w.settle(t)
	w.limits = &pool.Limits{Canary: intstr.FromInt32(1)}
	w.md.Spec.Template.Spec.Version = "v1.31.0"
	w.covered["v1.31.0"] = pool.AnswerNo
	steps := []struct {
		does func()
		want pool.Progress
	}{
		{func() {}, pool.Progress{Replicas: 3}},
		{func() { w.reconcile(t) }, pool.Progress{Replicas: 3, Touched: 1, InFlight: 1}},
		{func() { w.scale(w.setOf("v1.30.0"), func(int) int { return 0 }) },
			pool.Progress{Replicas: 3, Touched: 1, InFlight: 1}},
		{func() { w.reconcile(t); w.scale(w.setOf("v1.31.0"), nil) },
			pool.Progress{Replicas: 3, Touched: 1, InFlight: 1}},
		{func() { w.settle(t) }, pool.Progress{Replicas: 3, Touched: 3, Done: 3}},
	}
	for i, step := range steps {
		step.does()
		if diff := cmp.Diff(step.want, w.progress(t)); diff != "" {
			t.Errorf("step %d (-want +got):\n%s\n%s", i, diff, w)
		}
	}
	g := w.group()
	g.Limits, g.MachineDeployment.Spec.Replicas = nil, nil
	if _, err := pool.ProgressOf(g); err == nil {
		t.Error("a MachineDeployment without replicas has progress")
	}
}

func (w *world) progress(t failer) pool.Progress {
	t.Helper()
	p, err := pool.ProgressOf(w.group())
	if err != nil {
		t.Fatalf("ProgressOf: %v", err)
	}
	return p
}

func TestStages(t *testing.T) {
	t.Parallel()
	number, percent := intstr.FromInt32, intstr.FromString
	limits := pool.Limits{Canary: number(2), Batches: []intstr.IntOrString{number(3), percent("25%")}}
	for done, want := range map[int32]pool.Stage{
		0:  {Canary: true, End: 2},
		1:  {Canary: true, End: 2},
		2:  {Batch: 1, End: 5},
		4:  {Batch: 1, End: 5},
		5:  {Batch: 2, End: 8},
		8:  {Batch: 3, End: 11},
		11: {Batch: 4, End: 14},
	} {
		got := limits.Stage(pool.Progress{Replicas: 12, Touched: done, Done: done})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d done (-want +got):\n%s", done, diff)
		}
	}
	if n := limits.CountBatches(12); n != 4 {
		t.Errorf("there are %d batches", n)
	}
	none := pool.Limits{Canary: number(1)}
	if s, n := none.Stage(pool.Progress{Replicas: 3,
		Done: 1}), none.CountBatches(3); s != (pool.Stage{}) || n != 0 {
		t.Errorf("without batches the stage is %+v of %d", s, n)
	}
}

// TestDeadlineOfUpdate: the deadline of a Machine counts from the begin of its update, which the
// engine records. Neither the wait for a turn nor the soak counts.
func TestDeadlineOfUpdate(t *testing.T) {
	t.Parallel()
	const hours = 2 * time.Hour
	type group = pool.Group
	mark := func(key, value string) func(*group, *clusterv1.Machine) {
		return func(_ *group, m *clusterv1.Machine) { m.Annotations[key] = value }
	}
	at := func(d time.Duration) string { return epoch.Add(-d).Format(time.RFC3339) }
	record := func(phase string, d time.Duration) func(*group, *clusterv1.Machine) {
		return mark(v1alpha1.UpdateProgressAnnotation,
			fmt.Sprintf(`{"phase":%q,"began":%q}`, phase, at(d)))
	}
	retried := func(d time.Duration) func(*group, *clusterv1.Machine) {
		return mark(v1alpha1.UpdateProgressAnnotation, fmt.Sprintf(
			`{"phase":"Updating","began":%q,"retried":%q}`, at(9*time.Hour), at(d)))
	}
	paused := func(status metav1.ConditionStatus, d time.Duration,
		before func(*group, *clusterv1.Machine)) func(*group, *clusterv1.Machine) {
		return func(g *group, m *clusterv1.Machine) {
			before(g, m)
			conditions.Set(m, metav1.Condition{
				Type: clusterv1.PausedCondition, Status: status, Reason: "R",
				LastTransitionTime: metav1.NewTime(epoch.Add(-d)),
			})
		}
	}
	annotated := func(g *group, m *clusterv1.Machine) {
		record("Updating", hours)(g, m)
		m.Annotations[clusterv1.PausedAnnotation] = ""
	}
	otherEngine := func(g *group, _ *clusterv1.Machine) {
		for _, set := range g.MachineSets {
			delete(set.Annotations, v1alpha1.UpdateDecisionsAnnotation)
		}
	}
	ended := func(d time.Duration) func(*group, *clusterv1.Machine) {
		return func(_ *group, m *clusterv1.Machine) {
			m.Annotations = map[string]string{
				v1alpha1.LastUpdateAnnotation: fmt.Sprintf(`{"ended":%q}`, at(d)),
			}
		}
	}
	for name, tt := range map[string]struct {
		machine func(*group, *clusterv1.Machine)
		overdue bool
	}{
		"it waits for its turn":    {machine: func(*group, *clusterv1.Machine) {}},
		"it has begun":             {machine: record("Updating", 30*time.Minute)},
		"it takes too long":        {machine: record("Updating", hours), overdue: true},
		"it is not verified":       {machine: record("Verifying", hours), overdue: true},
		"it soaks":                 {machine: record("Soaking", hours)},
		"the record is unreadable": {machine: mark(v1alpha1.UpdateProgressAnnotation, "?")},
		"another engine":           {machine: otherEngine, overdue: true},
		"it was retried":           {machine: retried(30 * time.Minute)},
		"it was retried long ago":  {machine: retried(hours), overdue: true},
		"a pause has ended":        {machine: paused(metav1.ConditionFalse, time.Minute, record("Updating", hours))},
		"a pause ended long ago":   {machine: paused(metav1.ConditionFalse, hours, record("Updating", hours)), overdue: true},
		"a pause ends now":         {machine: paused(metav1.ConditionTrue, 9*time.Hour, record("Updating", hours))},
		"a person paused it alone": {machine: paused(metav1.ConditionTrue, time.Minute, annotated), overdue: true},
		"it waits after a pause":   {machine: paused(metav1.ConditionFalse, hours, func(*group, *clusterv1.Machine) {})},
		"another engine, a pause":  {machine: paused(metav1.ConditionFalse, time.Minute, otherEngine)},
		"ended, a pause":           {machine: paused(metav1.ConditionFalse, time.Minute, ended(hours))},
		"it has just ended":        {machine: ended(time.Minute)},
		"it ended long ago":        {machine: ended(hours), overdue: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := settledGroup(t, true)
			w.limits = &pool.Limits{MachineDeadline: time.Hour}
			m := w.machines[w.names()[0]]
			m.CreationTimestamp = metav1.NewTime(epoch.Add(-240 * time.Hour))
			m.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
			m.Status.Conditions = nil
			for kind, status := range map[string]metav1.ConditionStatus{
				clusterv1.MachineUpdatingCondition:  metav1.ConditionTrue,
				clusterv1.MachineAvailableCondition: metav1.ConditionFalse,
			} {
				conditions.Set(m, metav1.Condition{
					Type: kind, Status: status, Reason: "R", LastTransitionTime: metav1.NewTime(epoch.Add(-hours)),
				})
			}
			g := w.group()
			for _, set := range g.MachineSets {
				set.Annotations[v1alpha1.UpdateDecisionsAnnotation] = "[]"
			}
			for _, m := range g.Machines {
				if m.Name == w.names()[0] {
					tt.machine(&g, m)
				}
			}
			p, err := pool.ProgressOf(g)
			if err != nil || len(p.Overdue) > 0 != tt.overdue {
				t.Errorf("overdue are %v, %v", p.Overdue, err)
			}
			if p.Wake.IsZero() != tt.overdue {
				t.Errorf("the group is looked at again at %v", p.Wake)
			}
		})
	}
}

// TestDeadlineOfFinishedMachine: a Machine that was updated, and is unavailable for a moment long after
// its creation, is not overdue.
func TestDeadlineOfFinishedMachine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		unavailable time.Duration
		want        int
	}{"for a moment": {5 * time.Second, 0}, "too long": {11 * time.Minute, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := settledGroup(t, true)
			w.limits = &pool.Limits{MachineDeadline: 10 * time.Minute}
			m := w.machines[w.names()[0]]
			m.CreationTimestamp = metav1.NewTime(epoch.Add(-240 * time.Hour))
			w.set(m, false)
			conditions.Get(m, clusterv1.MachineAvailableCondition).LastTransitionTime =
				metav1.NewTime(w.group().Now.Add(-test.unavailable))
			p, err := pool.ProgressOf(w.group())
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Overdue) != test.want {
				t.Errorf("overdue are %v, want %d", p.Overdue, test.want)
			}
		})
	}
}
