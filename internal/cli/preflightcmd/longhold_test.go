package preflightcmd

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestLongHolds: a preflight fails while an extension blocks the upgrade under way, or the control plane's
// rollout or that of workers makes no progress, and warns of a suffix.
func TestLongHolds(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	type found struct{ topology, controlPlane string }
	for name, tt := range map[string]struct {
		hook, surge bool
		workers     bool
		reported    string
		age         time.Duration
		want        found
	}{
		"healthy":           {reported: "v1.33.1", age: 72 * time.Hour, want: found{"Passed", "Passed"}},
		"a hook for days":   {hook: true, reported: "v1.33.1", age: 72 * time.Hour, want: found{"Failed", "Passed"}},
		"a hook begins":     {hook: true, reported: "v1.33.1", age: 5 * time.Minute, want: found{"Passed", "Passed"}},
		"a surge for days":  {surge: true, reported: "v1.32.9", age: 72 * time.Hour, want: found{"Passed", "Failed"}},
		"a surge begins":    {surge: true, reported: "v1.32.9", age: 10 * time.Minute, want: found{"Passed", "Passed"}},
		"a suffix, at once": {reported: "v1.33.1-k0s.0", want: found{"Passed", "Warned"}},
		"workers for days":  {workers: true, reported: "v1.33.1", age: 72 * time.Hour, want: found{"Passed", "Failed"}},
		"workers begin":     {workers: true, reported: "v1.33.1", age: 10 * time.Minute, want: found{"Passed", "Passed"}},
	} {
		o := snapshot.Objects{Cluster: &clusterv1.Cluster{}, ControlPlane: &unstructured.Unstructured{Object: map[string]any{
			"kind": "AnyControlPlane", "spec": map[string]any{"version": "v1.33.1", "replicas": int64(1)},
			"status": map[string]any{"version": tt.reported},
		}}, MachineDeployments: []*clusterv1.MachineDeployment{{}}}
		if tt.hook {
			o.Cluster.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.ClusterTopologyReconciledCondition, Status: metav1.ConditionFalse,
				Message:            "upgrading\n  * Following hooks are blocking upgrade: BeforeClusterUpgrade",
				LastTransitionTime: metav1.NewTime(began),
			}}
		}
		if tt.workers {
			md := o.MachineDeployments[0]
			md.Name = "md-0"
			md.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineDeploymentRollingOutCondition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(began),
			}}
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.MachineDeploymentNameLabel: "md-0"}}}
			m.Spec.Version = "v1.32.9"
			md.Spec.Template.Spec.Version = "v1.33.1"
			o.Machines = append(o.Machines, m)
		}
		members := []string{"v1.33.1", "v1.32.9"}
		if !tt.surge {
			members = members[:1]
		}
		for _, v := range members {
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""}}}
			m.Spec.Version = v
			m.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(began),
			}}
			o.Machines = append(o.Machines, m)
		}
		a := snapshot.Around{Extensions: []runtimev1.ExtensionConfig{*serving("cso", "BeforeClusterUpgrade", nil)}}
		now := began.Add(tt.age)
		topology := preflight.CheckTopology(topologyOf(o, a, now))
		controlPlane := preflight.CheckControlPlane(nil, obstaclesOf(o, a, version.MustParse("v1.34.1"), now))
		got := found{string(topology[0].Outcome), string(controlPlane[0].Outcome)}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(found{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
