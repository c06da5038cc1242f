package pool_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/internal/pool"
)

func condition(kind, status, message string) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: metav1.ConditionStatus(status), Reason: "R" + status, Message: message,
	}
}

func TestDeploymentStatusMayWait(t *testing.T) {
	// rolling is a group of two in the middle of a rollout.
	rolling := func() *clusterv1.MachineDeployment {
		md := &clusterv1.MachineDeployment{}
		md.Spec.Replicas = new(int32(2))
		md.Status.Replicas, md.Status.ReadyReplicas = new(int32(2)), new(int32(1))
		md.Status.AvailableReplicas, md.Status.UpToDateReplicas = new(int32(1)), new(int32(1))
		for _, c := range []metav1.Condition{
			condition("Available", "True", ""), condition("RollingOut", "True", "1 of 2"),
			condition("ScalingUp", "False", ""), condition("ScalingDown", "False", ""),
		} {
			conditions.Set(md, c)
		}
		return md
	}
	begun := rolling()
	conditions.Set(begun, condition("RollingOut", "False", ""))
	if pool.DeploymentStatusMayWait(begun, rolling()) {
		t.Error("the begin of a rollout waits")
	}
	for name, tt := range map[string]struct {
		change func(*clusterv1.MachineDeployment)
		want   bool
	}{
		"a counter": {func(md *clusterv1.MachineDeployment) { md.Status.ReadyReplicas = new(int32(2)) },
			true},
		"a message of the rollout": {func(md *clusterv1.MachineDeployment) {
			conditions.Set(md, condition("RollingOut", "True", "2 of 2"))
		}, true},
		"a passing scale": {func(md *clusterv1.MachineDeployment) {
			conditions.Set(md, condition("ScalingDown", "True", "from 3 to 2"))
		}, true},
		"the generation": {func(md *clusterv1.MachineDeployment) { md.Status.ObservedGeneration = 2 },
			false},
		"not available": {func(md *clusterv1.MachineDeployment) {
			conditions.Set(md, condition("Available", "False", "0 of 2"))
		}, false},
		"blocked": {func(md *clusterv1.MachineDeployment) {
			conditions.Set(md, condition("UpdateBlocked", "True", "not covered"))
		}, false},
		"at rest": {func(md *clusterv1.MachineDeployment) {
			conditions.Set(md, condition("RollingOut", "False", ""))
			md.Status.ReadyReplicas, md.Status.AvailableReplicas = new(int32(2)), new(int32(2))
			md.Status.UpToDateReplicas = new(int32(2))
		}, false},
		"the rollout has ended, and a Machine is not ready": {func(md *clusterv1.MachineDeployment) {
			conditions.Set(md, condition("RollingOut", "False", ""))
			md.Status.UpToDateReplicas = new(int32(2))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := rolling(), rolling()
			tt.change(after)
			if got := pool.DeploymentStatusMayWait(before, after); got != tt.want {
				t.Errorf("may wait: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestSetStatusMayWait(t *testing.T) {
	receives := func(s *clusterv1.MachineSet) {
		s.Annotations = map[string]string{
			clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation: "old",
		}
	}
	updating := func() *clusterv1.MachineSet {
		set := &clusterv1.MachineSet{}
		set.Spec.Replicas, set.Status.UpToDateReplicas = new(int32(3)), new(int32(1))
		set.Status.Replicas, set.Status.ReadyReplicas = new(int32(1)), new(int32(0))
		conditions.Set(set, condition("MachinesReady", "False", "step 1"))
		conditions.Set(set, condition("Deleting", "False", ""))
		return set
	}
	for name, tt := range map[string]struct {
		change func(*clusterv1.MachineSet)
		want   bool
	}{
		"a message": {func(s *clusterv1.MachineSet) {
			conditions.Set(s, condition("MachinesReady", "False", "step 2"))
		}, true},
		"versions": {func(s *clusterv1.MachineSet) {
			s.Status.Versions = []clusterv1.StatusVersion{{Version: "v1.31.0", Replicas: 1}}
		}, true},
		"a counter":     {func(s *clusterv1.MachineSet) { s.Status.ReadyReplicas = new(int32(1)) }, false},
		"more Machines": {func(s *clusterv1.MachineSet) { s.Status.Replicas = new(int32(2)) }, false},
		"a Machine moves here": {func(s *clusterv1.MachineSet) {
			receives(s)
			s.Status.Replicas, s.Status.ObservedGeneration = new(int32(2)), 2
		}, true},
		"a Machine leaves": {func(s *clusterv1.MachineSet) {
			receives(s)
			s.Status.Replicas = new(int32(0))
		}, false},
		"fewer up to date": {func(s *clusterv1.MachineSet) { s.Status.UpToDateReplicas = new(int32(0)) }, true},
		"more up to date":  {func(s *clusterv1.MachineSet) { s.Status.UpToDateReplicas = new(int32(2)) }, true},
		"all up to date":   {func(s *clusterv1.MachineSet) { s.Status.UpToDateReplicas = new(int32(3)) }, false},
		"all of this MachineSet, not of the group": {func(s *clusterv1.MachineSet) {
			s.Annotations = map[string]string{clusterv1.DesiredReplicasAnnotation: "4"}
			s.Status.UpToDateReplicas = new(int32(3))
		}, true},
		"a first counter": {func(s *clusterv1.MachineSet) { s.Status.AvailableReplicas = new(int32(0)) }, false},
		"the generation":  {func(s *clusterv1.MachineSet) { s.Status.ObservedGeneration = 2 }, false},
		"the status of a condition about a step": {func(s *clusterv1.MachineSet) {
			conditions.Set(s, condition("MachinesReady", "True", ""))
		}, true},
		"the status of another condition": {func(s *clusterv1.MachineSet) {
			conditions.Set(s, condition("Deleting", "True", ""))
		}, false},
		"another message": {func(s *clusterv1.MachineSet) {
			conditions.Set(s, condition("Deleting", "False", "soon"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := updating(), updating()
			tt.change(after)
			if got := pool.SetStatusMayWait(before, after, true); got != tt.want {
				t.Errorf("may wait: %t, want %t", got, tt.want)
			}
			if got := pool.SetStatusMayWait(before, after, false); got && after.Status.ObservedGeneration == 2 {
				t.Error("the generation of an old MachineSet may wait")
			}
		})
	}
}

func TestIsRolling(t *testing.T) {
	set := func(replicas, available int32, wanted string) *clusterv1.MachineSet {
		s := &clusterv1.MachineSet{}
		s.Annotations = map[string]string{clusterv1.DesiredReplicasAnnotation: wanted}
		s.Spec.Replicas, s.Status.AvailableReplicas = new(replicas), new(available)
		return s
	}
	for name, tt := range map[string]struct {
		set     *clusterv1.MachineSet
		current bool
		want    bool
	}{
		"at rest":                       {set(3, 3, "3"), true, false},
		"more Machines are to come":     {set(2, 2, "3"), true, true},
		"a Machine is not available":    {set(3, 2, "3"), true, true},
		"without the size of the group": {set(3, 3, ""), true, false},
		"an old one with Machines":      {set(1, 1, "3"), false, true},
		"an old one without Machines":   {set(0, 0, "3"), false, false},
	} {
		if got := pool.IsRolling(tt.set, tt.current); got != tt.want {
			t.Errorf("%s: rolling %t, want %t", name, got, tt.want)
		}
	}
}
