package planinput

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestHoldNotes: a plan has a note if the rollout under way makes no progress, or workers will not follow.
func TestHoldNotes(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		reported, to string
		members      []string
		age          time.Duration
		want         string
	}{
		"healthy":        {"v1.33.1", "v1.34.1", []string{"v1.33.1"}, time.Hour, ""},
		"a suffix":       {"v1.33.1-k0s.0", "v1.34.1", []string{"v1.33.1"}, time.Hour, "AnyControlPlane cp: it asks for v1.33.1"},
		"with it":        {"v1.33.1-k0s.0", "v1.34.1-k0s.0", []string{"v1.33.1"}, time.Hour, ""},
		"a surge begins": {"v1.32.9", "v1.34.1", []string{"v1.33.1", "v1.32.9"}, time.Minute, ""},
		"a surge stays":  {"v1.32.9", "v1.34.1", []string{"v1.33.1", "v1.32.9"}, time.Hour, "AnyControlPlane cp: its rollout makes no progress"},
		"workers begin":  {"v1.33.1", "v1.34.1", []string{"v1.33.1", "md"}, time.Minute, ""},
		"workers stay":   {"v1.33.1", "v1.34.1", []string{"v1.33.1", "md"}, time.Hour, "MachineDeployment md: its rollout makes no progress"},
	} {
		o := snapshot.Objects{
			Cluster: &clusterv1.Cluster{}, MachineDeployments: []*clusterv1.MachineDeployment{{}},
			ControlPlane: &unstructured.Unstructured{Object: map[string]any{
				"kind": "AnyControlPlane", "metadata": map[string]any{"name": "cp"},
				"spec":   map[string]any{"version": "v1.33.1", "replicas": int64(1)},
				"status": map[string]any{"version": tt.reported},
			}},
		}
		for _, v := range tt.members {
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""}}}
			m.Spec.Version = v
			if v == "md" {
				md := o.MachineDeployments[0]
				md.Name, md.Spec.Template.Spec.Version = v, "v1.33.1"
				m.Labels = map[string]string{clusterv1.MachineDeploymentNameLabel: v}
				md.Status.Conditions = []metav1.Condition{{
					Type: clusterv1.MachineDeploymentRollingOutCondition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(began),
				}}
			}
			m.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(began),
			}}
			o.Machines = append(o.Machines, m)
		}
		var r Request
		r.Request.Target = version.MustParse(tt.to)
		got := strings.Join(r.holdNotes(o, snapshot.Around{}, began.Add(tt.age)), "\n")
		if (got != "") != (tt.want != "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
