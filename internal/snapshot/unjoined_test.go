package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestUnjoined: a step can be taken back if all that is known to have joined runs the earlier version.
func TestUnjoined(t *testing.T) {
	t.Parallel()
	member := func(made, kubelet string, node bool) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""}}}
		m.Spec.Version = made
		if node {
			m.Status.NodeRef.Name = "node"
		}
		if kubelet != "" {
			m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: kubelet}
		}
		return m
	}
	old, worker := member("v1.32.4", "v1.32.4", true), member("v1.33.99", "v1.33.99", true)
	worker.Labels = nil
	for name, tt := range map[string]struct {
		machines []*clusterv1.Machine
		want     bool
	}{
		"none":                        {nil, false},
		"none with a node":            {[]*clusterv1.Machine{member("v1.33.99", "", false)}, false},
		"one that does not join":      {[]*clusterv1.Machine{old, member("v1.33.99", "", false)}, true},
		"one that has joined":         {[]*clusterv1.Machine{old, member("v1.33.99", "v1.33.99", true)}, false},
		"one that is to be updated":   {[]*clusterv1.Machine{old, member("v1.33.99", "v1.32.4", true)}, false},
		"a kubelet that is ahead":     {[]*clusterv1.Machine{old, member("v1.32.4", "v1.33.99", true)}, false},
		"a version that is none":      {[]*clusterv1.Machine{old, member("latest", "", true)}, false},
		"another spelling of a build": {[]*clusterv1.Machine{member("v1.32.4", "v1.32.4+k0s.0", true)}, true},
		"a worker":                    {[]*clusterv1.Machine{old, worker}, true},
	} {
		if got := Unjoined(tt.machines, v("v1.32.4")); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestStarted: a host whose Machine has no Node may have joined etcd at a newer version.
func TestStarted(t *testing.T) {
	t.Parallel()
	machine := func(change func(*clusterv1.Machine)) *clusterv1.Machine {
		m := &clusterv1.Machine{}
		m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
		m.Spec.Version = "v1.33.99"
		m.Status.Initialization.InfrastructureProvisioned = new(true)
		change(m)
		return m
	}
	for name, tt := range map[string]struct {
		change func(*clusterv1.Machine)
		want   bool
	}{
		"a host":            {func(*clusterv1.Machine) {}, true},
		"unknown version":   {func(m *clusterv1.Machine) { m.Spec.Version = "latest" }, true},
		"the older version": {func(m *clusterv1.Machine) { m.Spec.Version = "v1.32.4" }, false},
		"a Node":            {func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "node" }, false},
		"a worker":          {func(m *clusterv1.Machine) { m.Labels = nil }, false},
		"no host": {func(m *clusterv1.Machine) {
			m.Status.Initialization.InfrastructureProvisioned = new(false)
		}, false},
		"nothing known": {func(m *clusterv1.Machine) {
			m.Status.Initialization.InfrastructureProvisioned = nil
		}, false},
	} {
		m := machine(tt.change)
		if got := Started([]*clusterv1.Machine{m}, v("v1.32.4")); (got == m) != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
