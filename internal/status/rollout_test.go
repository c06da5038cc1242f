package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// rollingPool is a Cluster with a MachineDeployment of twelve machines, of which so many are up to
// date and so many are being updated in place.
func rollingPool(done, updating int) Facts {
	const replicas = 12
	f := Facts{Rollouts: RolloutFacts{Engine: v1alpha1.EngineManager}}
	f.Cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "prod"}}
	policy := v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a",
		Name: "workers"}}
	policy.Spec = v1alpha1.UpdatePolicySpec{
		Targets: []v1alpha1.UpdateTarget{{}}, Strategy: v1alpha1.ExternalUpdate,
		SoakSeconds: 60, RolloutLimits: v1alpha1.RolloutLimits{
			Canary:  new(intstr.FromInt32(2)),
			Batches: []intstr.IntOrString{intstr.FromInt32(3), intstr.FromString("50%")},
		},
	}
	f.Policies = []v1alpha1.UpdatePolicy{policy}
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a",
		Name: "prod-md-0", UID: "md"}}
	md.Spec.Replicas = new(int32(replicas))
	md.Spec.Rollout.Strategy.Type = clusterv1.RollingUpdateMachineDeploymentStrategyType
	md.Spec.Template.Spec.Version = "v1.32.1"
	f.MachineDeployments = []*clusterv1.MachineDeployment{md}
	sets := map[string]*clusterv1.MachineSet{}
	for _, version := range []string{"v1.32.1", "v1.31.0"} {
		set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a",
			Name: "prod-md-0-" + version}}
		set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(md,
			clusterv1.GroupVersion.WithKind("MachineDeployment"))}
		set.Labels = map[string]string{clusterv1.MachineDeploymentUniqueLabel: version}
		set.Spec.Template.Spec.Version = version
		set.Spec.Replicas = new(int32(done + updating))
		sets[version] = set
	}
	*sets["v1.31.0"].Spec.Replicas = int32(replicas - done - updating)
	f.Rollouts.MachineSets = []*clusterv1.MachineSet{sets["v1.31.0"], sets["v1.32.1"]}
	for i := range replicas {
		m := machine(fmt.Sprintf("w-%02d", i))
		set := sets["v1.32.1"]
		switch {
		case i < done:
		case i < done+updating:
			m.Annotations[clusterv1.UpdateInProgressAnnotation] = ""
		default:
			set = sets["v1.31.0"]
		}
		m.Spec.Version = set.Spec.Template.Spec.Version
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set,
			clusterv1.GroupVersion.WithKind("MachineSet"))}
		conditions.Set(m, metav1.Condition{
			Type: clusterv1.MachineAvailableCondition, Status: metav1.ConditionTrue, Reason: "Test",
			LastTransitionTime: metav1.NewTime(start),
		})
		f.Machines = append(f.Machines, m)
	}
	return f
}

func TestRollout(t *testing.T) {
	t.Parallel()
	later := after(time.Hour)
	for name, tt := range map[string]struct {
		facts  Facts
		change func(*Facts)
		now    time.Time
		want   string
	}{
		"not begun": {facts: rollingPool(0, 0), want: "0 of 12 updated, canary"},
		"canary":    {facts: rollingPool(1, 1), want: "1 of 12 updated, 1 in flight, canary"},
		"batch":     {facts: rollingPool(5, 2), want: "5 of 12 updated, 2 in flight, batch 2 of 3"},
		"soaking": {
			facts: rollingPool(2, 0), now: after(time.Second),
			want: "0 of 12 updated, 2 in flight, canary",
			change: func(f *Facts) {
				for _, m := range f.Machines {
					m.CreationTimestamp = metav1.NewTime(after(0)) // Only Machines that are created soak.
				}
			},
		},
		"over": {facts: rollingPool(12, 0)},
		"over, but not for its controller": {
			facts: rollingPool(12, 0), want: "12 of 12 updated, batch 3 of 3",
			change: func(f *Facts) {
				conditions.Set(f.MachineDeployments[0], metav1.Condition{
					Type: clusterv1.RollingOutCondition, Status: metav1.ConditionTrue, Reason: "Test",
				})
			},
		},
		"failed": {
			facts: rollingPool(5, 2), want: "5 of 12 updated, 1 in flight, 1 failed, batch 2 of 3",
			change: func(f *Facts) {
				conditions.Set(f.Machines[5], metav1.Condition{
					Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionTrue,
					Reason: clusterv1.MachineInPlaceUpdateFailedReason,
				})
			},
		},
		"stock":     {facts: rollingPool(5, 2), change: func(f *Facts) { f.Rollouts.Engine = "" }},
		"no policy": {facts: rollingPool(5, 2), change: func(f *Facts) { f.Policies = nil }},
		"nobody may read MachineSets": {
			facts: rollingPool(5, 2), change: func(f *Facts) { f.Rollouts.MachineSets = nil },
		},
		"people delete the machines": {
			facts: rollingPool(5, 2), change: func(f *Facts) {
				strategy := &f.MachineDeployments[0].Spec.Rollout.Strategy
				strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
			},
		},
		"a strategy that nobody knows": {
			facts: rollingPool(5,
				2), change: func(f *Facts) { f.MachineDeployments[0].Spec.Rollout.Strategy.Type = "Sometimes" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, now := tt.facts, tt.now
			if tt.change != nil {
				tt.change(&f)
			}
			if now.IsZero() {
				now = later
			}
			got := ""
			if r := Compute(f, now).Groups[0].Rollout; r != nil {
				got = r.Describe()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the rollout (-want +got):\n%s", diff)
			}
		})
	}
}
