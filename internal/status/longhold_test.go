package status

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// TestHookServer: a hook that holds an upgrade has the name of the extension that serves it, and the way
// out once it has held for long.
func TestHookServer(t *testing.T) {
	t.Parallel()
	u := upgrade{target: "v1.30.6", controlPlane: "v1.29.10", members: repeat(3, "v1.29.10"), source: versions("v1.30.6")}
	u.reason = clusterv1.ClusterTopologyReconciledClusterUpgradingReason
	u.message = "Cluster is upgrading to v1.30.6\n  * Following hooks are blocking upgrade: BeforeClusterUpgrade"
	e := runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "cso"}}
	e.Spec.ClientConfig.Service = runtimev1.ServiceReference{Namespace: "cso-system", Name: "hooks"}
	e.Status.Handlers = []runtimev1.ExtensionHandler{{
		Name: "x.cso", RequestHook: runtimev1.GroupVersionHook{Hook: "BeforeClusterUpgrade"},
	}}
	const line = "Following hooks are blocking upgrade: BeforeClusterUpgrade"
	const served = line + "; " +
		"it is served by ExtensionConfig cso (Service cso-system/hooks)"
	for name, tt := range map[string]struct {
		extensions []runtimev1.ExtensionConfig
		age        time.Duration
		want       string
		fix        bool
	}{
		"unknown":      {nil, 72 * time.Hour, line, false},
		"five minutes": {[]runtimev1.ExtensionConfig{e}, 5 * time.Minute, served, false},
		"days":         {[]runtimev1.ExtensionConfig{e}, 72 * time.Hour, served, true},
	} {
		f := u.facts(t)
		f.Around.Extensions = tt.extensions
		for i := range f.Cluster.Status.Conditions {
			f.Cluster.Status.Conditions[i].LastTransitionTime = metav1.NewTime(start)
		}
		holds := Compute(f, start.Add(tt.age)).Chain.Holds
		if len(holds) != 1 || !strings.HasPrefix(holds[0].Message, tt.want) ||
			strings.Contains(holds[0].Message, ". Fix: see in its log") != tt.fix {
			t.Errorf("%s: %+v", name, holds)
		}
	}
}

// TestRestingControlPlane: what the row of a control plane waits for whose rollout makes no progress, or
// whose provider reports a suffix, with a topology and without.
func TestRestingControlPlane(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reported    string
		surge, held bool
		age         time.Duration
		want        string
	}{
		"a rollout for a day":      {"v1.34.8+rke2r1", true, true, 24 * time.Hour, "its rollout makes no progress: it has 2 machines for 1 replica"},
		"a rollout for 10 minutes": {"v1.34.8+rke2r1", true, false, 10 * time.Minute, ""},
		"no rollout":               {"v1.35.5", false, false, 24 * time.Hour, ""},
		"a suffix":                 {"v1.35.5-k0s.0", false, false, 24 * time.Hour, "it asks for v1.35.5 and reports"},
	} {
		for _, topology := range []bool{false, true} {
			f := Facts{}
			f.Cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
			if topology {
				f.Cluster.Spec.Topology = clusterv1.Topology{
					ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.35.5",
				}
				f.Upgrade = &UpgradeFacts{}
			}
			f.MachineDeployments = []*clusterv1.MachineDeployment{{ObjectMeta: metav1.ObjectMeta{Name: "md-0"}}}
			f.MachineDeployments[0].Spec.Template.Spec.Version = "v1.35.5"
			f.ControlPlane = &unstructured.Unstructured{Object: map[string]any{
				"kind": "RKE2ControlPlane", "metadata": map[string]any{"namespace": "ns", "name": "cp"},
				"spec":   map[string]any{"version": "v1.35.5", "replicas": int64(1)},
				"status": map[string]any{"version": tt.reported},
			}}
			members := []string{"v1.35.5"}
			if tt.surge {
				members = append(members, "v1.34.8+rke2r1")
			}
			for i, v := range members {
				m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", Name: string(rune('a' + i)), Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""},
				}}
				m.Spec.Version = v
				m.Status.Conditions = []metav1.Condition{{
					Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(start),
				}}
				f.Machines = append(f.Machines, m)
			}
			r := Compute(f, start.Add(tt.age))
			got := r.Groups[0].Waits
			if (got != "") != (tt.want != "") || !strings.HasPrefix(got, tt.want) {
				t.Errorf("%s, topology %t: %q, want %q", name, topology, got, tt.want)
			}
			held := false
			if r.Chain != nil {
				for _, h := range r.Chain.Holds {
					held = held || h.Kind == HeldByMachines && h.Since.Equal(start) && h.Message == got
				}
			}
			if held != (topology && tt.held) {
				t.Errorf("%s, topology %t: %+v", name, topology, r.Chain)
			}
		}
	}
}
