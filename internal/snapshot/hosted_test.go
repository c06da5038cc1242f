package snapshot

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestHostedStandstill: a control plane that runs as Pods and does not come up is no rollout that takes its time.
func TestHostedStandstill(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 28, 9, 22, 0, 0, time.UTC)
	away := func(o *unstructured.Unstructured, kind string) {
		_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{
			"type": kind, "status": "False", "reason": "NotReady", "message": "Pods\n  are away",
			"lastTransitionTime": began.Format(time.RFC3339),
		}}, "status", "conditions")
	}
	for name, tt := range map[string]struct {
		edit func(*Objects)
		age  time.Duration
		// want is part of the message and of the fix; empty for no standstill.
		want, fix string
	}{
		"away":     {want: "asks for v1.36.3-k0s.2 and has v1.35.4-k0s.0, and is not available since 2026-11-28T09:22:00Z (Pods are away)", fix: "-n ns get pods"},
		"a moment": {age: time.Minute},
		"an old etcd's data": {
			edit: func(o *Objects) {
				_ = unstructured.SetNestedField(o.ControlPlane.Object, "r.example:5000/etcd:v3.7.1", "spec", "storage", "etcd", "image")
			}, want: "not available", fix: "set spec.storage.etcd.image to a release of v3.6, wait until it is Ready, and then set v3.7.1",
		},
		"without Available": {edit: func(o *Objects) { away(o.ControlPlane, "Ready") }, want: "(Pods are away)", fix: "get pods"},
		"available":         {edit: func(o *Objects) { unstructured.RemoveNestedField(o.ControlPlane.Object, "status", "conditions") }},
		"arrived": {edit: func(o *Objects) {
			_ = unstructured.SetNestedField(o.ControlPlane.Object, "v1.36.3-k0s.2", "status", "version")
		}},
		"of Machines that nobody may read": {edit: func(o *Objects) {
			unstructured.RemoveNestedField(o.ControlPlane.Object, "status", "externalManagedControlPlane")
		}},
		"paused": {edit: func(o *Objects) { o.Cluster.Spec.Paused = new(true) }},
		"with Machines": {edit: func(o *Objects) {
			o.Machines = []*clusterv1.Machine{{ObjectMeta: metav1.ObjectMeta{
				Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""},
			}}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Objects{Cluster: &clusterv1.Cluster{}, ControlPlane: &unstructured.Unstructured{Object: map[string]any{
				"kind": "K0smotronControlPlane", "metadata": map[string]any{"name": "hosted", "namespace": "ns"},
				"spec":   map[string]any{"version": "v1.36.3-k0s.2", "replicas": int64(1)},
				"status": map[string]any{"version": "v1.35.4-k0s.0", "externalManagedControlPlane": true},
			}}}
			away(o.ControlPlane, "Available")
			if tt.edit != nil {
				tt.edit(&o)
			}
			age := tt.age
			if age == 0 {
				age = 36 * time.Hour
			}
			s, ok := RolloutStandstill(o, Around{})
			ok = ok && s.IsLong(began.Add(age))
			if ok != (tt.want != "") || ok && (!strings.Contains(s.Message, tt.want) || !strings.Contains(s.Fix, tt.fix)) {
				t.Errorf("%t, %q, fix %q", ok, s.Message, s.Fix)
			}
		})
	}
}
