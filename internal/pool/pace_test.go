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
	updating := func() *clusterv1.MachineSet {
		set := &clusterv1.MachineSet{}
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
		"a counter": {func(s *clusterv1.MachineSet) { s.Status.ReadyReplicas = new(int32(1)) },
			false},
		"a first counter": {func(s *clusterv1.MachineSet) { s.Status.AvailableReplicas = new(int32(0)) },
			false},
		"the generation": {func(s *clusterv1.MachineSet) { s.Status.ObservedGeneration = 2 }, false},
		"the status of a condition": {func(s *clusterv1.MachineSet) {
			conditions.Set(s, condition("MachinesReady", "True", ""))
		}, false},
		"another message": {func(s *clusterv1.MachineSet) {
			conditions.Set(s, condition("Deleting", "False", "soon"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := updating(), updating()
			tt.change(after)
			if got := pool.SetStatusMayWait(before, after); got != tt.want {
				t.Errorf("may wait: %t, want %t", got, tt.want)
			}
		})
	}
}
