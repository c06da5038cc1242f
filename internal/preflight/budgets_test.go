package preflight_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/preflight"
)

// TestCrashingPods: a budget that allows no eviction because its Pods crash is not one to wait for,
// and more of these Pods do not help.
func TestCrashingPods(t *testing.T) {
	t.Parallel()
	const (
		correct = "correct or scale down the application whose Pods crash"
		allow   = "; or set unhealthyPodEvictionPolicy: AlwaysAllow in the budget, so that Pods which are not " +
			"healthy are evicted"
		limit   = "; nodeDrainTimeoutSeconds limits each drain"
		wait    = "wait until its Pods are healthy, or look why they are not"
		passed  = "Passed: 1 PodDisruptionBudget checked: each allows evictions"
		unmet   = "Warned: PodDisruptionBudget ns/b: it allows no eviction now: 0 Pods are healthy, and 1 must be"
		endless = "; a drain of its Nodes waits indefinitely, because nodeDrainTimeoutSeconds of a machine of " +
			"them is not set, or 0, which is no limit"
		ends = "; a drain of its Nodes waits until nodeDrainTimeoutSeconds, at most 600s, and then ends with " +
			"its Pods still there"
		loops = "; 2 Pods crash, so that waiting does not help: " +
			"p1 on Node n1 (CrashLoopBackOff, not Ready since 2026-11-25T13:02:10Z, 1274 restarts), " +
			"p2 on Node n2 (CrashLoopBackOff, not Ready since 2026-11-25T13:02:10Z, 1274 restarts)"
		unready = "; 2 Pods crash, so that waiting does not help: " +
			"p1 on Node n1 (not Ready since 2026-11-25T13:02:10Z, 1274 restarts), " +
			"p2 on Node n2 (not Ready since 2026-11-25T13:02:10Z, 1274 restarts)"
	)
	since := time.Date(2026, 11, 25, 13, 2, 10, 0, time.UTC)
	one := gate.Budget{ExpectedPods: 2, DesiredHealthy: 1}
	running := func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	}
	for name, tt := range map[string]struct {
		budget  gate.Budget
		edit    func(*preflight.Budget)
		pod     func(*corev1.Pod)
		timeout int32
		now     time.Time
		want    string
		fix     string
	}{
		"crash":          {budget: one, want: unmet + loops + endless, fix: correct + allow + limit},
		"a drain ends":   {budget: one, timeout: 600, want: unmet + loops + ends, fix: correct + allow},
		"between starts": {budget: one, pod: running, want: unmet + unready + endless, fix: correct + allow + limit},
		"just restarted": {budget: one, pod: running, now: since.Add(time.Hour), want: unmet, fix: wait},
		"it starts": {budget: one, want: unmet, fix: wait, pod: func(p *corev1.Pod) {
			running(p)
			p.Status.ContainerStatuses[0].RestartCount = 0
		}},
		"they are Ready": {budget: one, want: unmet, fix: wait, pod: func(p *corev1.Pod) {
			running(p)
			p.Status.Conditions[0].Status = corev1.ConditionTrue
		}},
		// The API server asks no budget before it evicts these.
		"pending": {budget: one, want: unmet, fix: wait, pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }},
		"of others": {budget: one, want: unmet, fix: wait, pod: func(p *corev1.Pod) {
			p.Labels = nil
		}},
		"always allowed": {budget: one, edit: func(b *preflight.Budget) { b.AlwaysAllow = true }, want: passed},
		"allowed": {budget: one, edit: func(b *preflight.Budget) {
			b.Allowed, b.Healthy = 1, 2
		}, want: passed},
		// While a budget is met, the Pods that crash are evicted, and the healthy ones are kept.
		"met": {
			budget: gate.Budget{ExpectedPods: 3, DesiredHealthy: 1}, edit: func(b *preflight.Budget) { b.Healthy = 1 },
			want: "Warned: PodDisruptionBudget ns/b: it allows no eviction now: 1 Pod is healthy, and 1 must be" +
				loops + endless,
			fix: correct + "; or let the budget require fewer healthy Pods" + limit,
		},
		"none must be healthy": {
			budget: gate.Budget{ExpectedPods: 2},
			want: "Warned: PodDisruptionBudget ns/b: it allows no eviction now: 0 Pods are healthy, and 0 must be" +
				loops + endless,
			fix: correct + allow + limit,
		},
		"never": {
			budget: gate.Budget{ExpectedPods: 2, DesiredHealthy: 2},
			want: "Failed: PodDisruptionBudget ns/b: it requires 2 healthy Pods and selects 2, so that it allows " +
				"no eviction" + endless + loops,
			fix: correct + ", and allow one disruption: maxUnavailable 1, or a smaller minAvailable; " +
				"accept it by the name budget/ns/b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := budget("b", tt.budget, "app=b", 0)
			b.Healthy = 0
			if tt.edit != nil {
				tt.edit(&b)
			}
			var pods []preflight.Workload
			for _, n := range []string{"1", "2"} {
				pods = append(pods, pod(t, "p"+n, "n"+n, "1", "1Gi", func(p *corev1.Pod) {
					p.Namespace, p.Labels, p.Status = "ns", map[string]string{"app": "b"}, crashing(since)
					if tt.pod != nil {
						tt.pod(p)
					}
				}))
			}
			now := tt.now
			if now.IsZero() {
				now = since.Add(4 * 24 * time.Hour)
			}
			found := preflight.CheckBudgets(preflight.Disruptions{
				Budgets: []preflight.Budget{b}, Pods: pods, Now: now,
				DrainTimeouts: map[string]int32{"n1": tt.timeout, "n2": tt.timeout},
			})
			expect(t, []string{tt.want}, sayBriefly(found))
			if found[0].Fix != tt.fix {
				t.Errorf("Fix: %s\nwant %s", found[0].Fix, tt.fix)
			}
		})
	}
}

func crashing(since time.Time) corev1.PodStatus {
	return corev1.PodStatus{
		Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(since),
		}},
		ContainerStatuses: []corev1.ContainerStatus{{
			RestartCount: 1274,
			State:        corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		}},
	}
}
