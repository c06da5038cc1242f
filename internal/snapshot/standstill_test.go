package snapshot_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/snapshot"
)

// TestUnannouncedStep: KubeadmControlPlane creates no machine for a step between the topology's version
// and that of its machines unless the Cluster announces it.
func TestUnannouncedStep(t *testing.T) {
	t.Parallel()
	const since = "2026-11-27T06:00:00Z"
	type facts struct{ kind, target, at, machines, step, upToDate string }
	stuck := facts{"KubeadmControlPlane", "v1.33.5", "v1.32.9", "v1.31.10", "", "False"}
	with := func(edit func(*facts)) facts {
		f := stuck
		edit(&f)
		return f
	}
	for name, tt := range map[string]struct {
		facts facts
		want  bool
	}{
		"stands still":                 {stuck, true},
		"announced":                    {with(func(f *facts) { f.step = f.at }), false},
		"another step is announced":    {with(func(f *facts) { f.step = "v1.31.10" }), true},
		"at the target":                {with(func(f *facts) { f.at = f.target }), false},
		"its machines are there":       {with(func(f *facts) { f.machines = f.at }), false},
		"nothing to do":                {with(func(f *facts) { f.upToDate = "True" }), false},
		"no condition":                 {with(func(f *facts) { f.upToDate = "" }), false},
		"no topology":                  {with(func(f *facts) { f.target = "" }), false},
		"a control plane without this": {with(func(f *facts) { f.kind = "TalosControlPlane" }), false},
	} {
		o := snapshot.Objects{Cluster: &clusterv1.Cluster{}}
		if tt.facts.target != "" {
			o.Cluster.Spec.Topology.ClassRef.Name, o.Cluster.Spec.Topology.Version = "class", tt.facts.target
		}
		if tt.facts.step != "" {
			o.Cluster.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeStepAnnotation: tt.facts.step}
		}
		var conditions []any
		if tt.facts.upToDate != "" {
			conditions = []any{map[string]any{
				"type": "MachinesUpToDate", "status": tt.facts.upToDate, "lastTransitionTime": since,
			}}
		}
		o.ControlPlane = &unstructured.Unstructured{Object: map[string]any{
			"kind": tt.facts.kind, "metadata": map[string]any{"name": "cp"},
			"spec":   map[string]any{"version": tt.facts.at},
			"status": map[string]any{"conditions": conditions},
		}}
		o.Machines = []*clusterv1.Machine{{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""}},
			Spec:       clusterv1.MachineSpec{Version: tt.facts.machines},
		}, {Spec: clusterv1.MachineSpec{Version: "v1.30.0"}}}
		failure, at, ok := snapshot.UnannouncedStep(o)
		if ok != tt.want {
			t.Errorf("%s: %+v, %t", name, failure, ok)
		}
		if ok && (at.Format(time.RFC3339) != since || !strings.Contains(failure.Fix, "RuntimeSDK=true") ||
			!strings.Contains(failure.Message, "cp waits at v1.32.9, with machines at v1.31.10: the topology asks for v1.33.5")) {
			t.Errorf("%s: %+v since %s", name, failure, at)
		}
	}
}
