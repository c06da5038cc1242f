package status

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestRestingWorkers: what a group waits for whose rollout makes no progress, what holds the upgrade
// then, and that a Machine which serves nobody is not up to date.
func TestRestingWorkers(t *testing.T) {
	t.Parallel()
	const (
		deletes = "its rollout makes no progress: no new Machine has become Ready since " +
			"2026-01-02T03:04:05Z: MachineHealthCheck mhc has Machines deleted"
		provider = "its rollout makes no progress: Machine new has no infrastructure since 2026-01-02T03:04:05Z: no server"
	)
	for name, tt := range map[string]struct {
		condition string
		age       time.Duration
		want      string
		upToDate  int
	}{
		"a MachineHealthCheck":             {clusterv1.MachineHealthCheckSucceededCondition, 33 * time.Hour, deletes, 1},
		"a MachineHealthCheck, 20 minutes": {clusterv1.MachineHealthCheckSucceededCondition, 20 * time.Minute, "", 1},
		"no infrastructure":                {clusterv1.MachineInfrastructureReadyCondition, 33 * time.Hour, provider, 1},
		"no infrastructure, 2 minutes":     {clusterv1.MachineInfrastructureReadyCondition, 2 * time.Minute, "", 1},
		"it joins":                         {clusterv1.MachineNodeHealthyCondition, time.Minute, "", 2},
	} {
		began := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		now := began.Add(tt.age)
		u := upgrade{
			target: "v1.31.0", controlPlane: "v1.31.0", members: repeat(1, "v1.31.0"),
			groups: []testGroup{{name: "md-0", template: "v1.31.0", kubelets: []string{"v1.30.0"}}},
		}
		f := u.facts(t)
		md := f.MachineDeployments[0]
		md.Spec.Template.Labels = map[string]string{"pool": "a"}
		md.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.MachineDeploymentRollingOutCondition, Status: metav1.ConditionTrue, LastTransitionTime: began,
		}}
		fresh := f.Machines[1].DeepCopy()
		fresh.Name, fresh.Spec.Version, fresh.Status = "new", "v1.31.0", clusterv1.MachineStatus{}
		fresh.Status.Conditions = []metav1.Condition{
			{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionTrue, LastTransitionTime: began},
			{Type: tt.condition, Status: metav1.ConditionFalse, LastTransitionTime: began, Message: "no server"},
		}
		f.Machines = append(f.Machines, fresh)
		check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "mhc"}}
		check.Spec.ClusterName, check.Spec.Selector.MatchLabels = f.Cluster.Name, map[string]string{"pool": "a"}
		if tt.condition == clusterv1.MachineHealthCheckSucceededCondition {
			f.Around.HealthChecks = []*clusterv1.MachineHealthCheck{check}
		}
		r := Compute(f, now)
		got := r.Groups[1].Waits
		if (got != "") != (tt.want != "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		held := 0
		for _, h := range r.Chain.Holds {
			if h.Kind == HeldByMachines && h.By == "md-0" && h.Message == got && h.Since.Equal(began.Time) {
				held++
			}
		}
		if held != min(len(tt.want), 1) {
			t.Errorf("%s: %+v", name, r.Chain.Holds)
		}
		if r.Chain.AtTarget != tt.upToDate {
			t.Errorf("%s: %d Machines at the target, want %d", name, r.Chain.AtTarget, tt.upToDate)
		}
		upToDate := r.Groups[0].Count[UpToDate] + r.Groups[1].Count[UpToDate]
		if upToDate != tt.upToDate {
			t.Errorf("%s: %d Machines are up to date, want %d", name, upToDate, tt.upToDate)
		}
	}
}
