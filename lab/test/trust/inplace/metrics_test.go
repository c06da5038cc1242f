package inplace

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

// TestMetrics updates a machine, holds a Cluster at a gate, and has the guard refuse a Machine. The
// extension then serves every family that docs/reference/metrics.md lists, but for those of the
// manager's calls. The series of a Cluster end with it.
func TestMetrics(t *testing.T) {
	plane := wire.Start(t)
	pool := plane.NewPool(t, "a", "b")
	updater := newUpdater(t, plane, pool, "u")
	updater.Update = finishes(pool)
	holdCluster(t, plane, pool.Namespace)
	extension := plane.Run(t, "--insecure-diagnostics")
	decide(t, extension, pool)
	pool.Move(t, "a")
	update(t, extension, pool, "a")
	pool.Move(t, "b")
	refuseMachine(t, extension, pool)

	var served wire.Families
	of := func(cluster string, more ...string) map[string]string {
		labels := map[string]string{"cluster_namespace": pool.Namespace, "cluster": cluster}
		for i := 0; i < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
		return labels
	}
	// Caches learn of the objects a moment after they were written.
	loopback.Eventually(t, "the caches have the Cluster and the Machine", func() bool {
		served = wire.Scrape(t, http.DefaultClient, "http://"+extension.Diagnostics)
		_, waits := served.Value("windlass_gate_waiting", of("held"))
		_, marked := served.Value("windlass_machine_updates", of(wire.ClusterName, "phase", "Queued"))
		return waits && marked
	})
	wire.CheckServed(t, served, func(name string) bool {
		// Without --pod no label is kept. Only the manager has MachineDeployments in its cache. The API
		// server refuses nothing.
		return !strings.HasPrefix(name, "windlass_hook_") && name != "windlass_active" &&
			name != "windlass_refused_writes_total" &&
			name != "windlass_machinedeployment_blocked"
	})
	for _, want := range []struct {
		family string
		labels map[string]string
		value  float64
	}{
		{"windlass_leader", nil, 1},
		{"windlass_cluster_upgrade_info", of("held", "from", "v1.30.0", "to", "v1.33.0", "phase", "Held"), 1},
		{"windlass_cluster_upgrade_step", of("held"), 1},
		{"windlass_cluster_upgrade_steps_left", of("held"), 2},
		{"windlass_gate_waiting", of("held", "gate", "night", "hook", "BeforeWorkersUpgrade"), 1},
		{"windlass_machine_updates", of(wire.ClusterName, "phase", "Queued"), 1},
		{"windlass_machine_update_duration_seconds", of(wire.ClusterName, "updater", "RuntimeHooks", "result", "success"), 1},
		{"windlass_machine_update_attempts_total", of(wire.ClusterName, "updater", "RuntimeHooks", "result", "success"), 1},
	} {
		if got, found := served.Value(want.family, want.labels); !found || got != want.value {
			t.Errorf("%s%v is %v (%t), want %v", want.family, want.labels, got, found, want.value)
		}
	}
	if got, _ := served.Value("windlass_cluster_upgrade_held_seconds", of("held", "reason", "UpgradeGate")); got < 3600 {
		t.Errorf("the gate has held the Cluster for %v s", got)
	}

	for _, name := range []string{"held", wire.ClusterName} {
		gone := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: name}}
		if err := plane.Client.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	loopback.Eventually(t, "the series of Clusters that are gone have ended", func() bool {
		served = wire.Scrape(t, http.DefaultClient, "http://"+extension.Diagnostics)
		for name := range served {
			if _, found := served.Value(name, map[string]string{"cluster_namespace": pool.Namespace}); found {
				return false
			}
		}
		return true
	})
}

// holdCluster creates a Cluster that waits at a gate in the middle of its upgrade, as stock Cluster
// API and Windlass leave it.
func holdCluster(t *testing.T, plane *wire.Plane, namespace string) {
	t.Helper()
	since := metav1.NewTime(time.Now().Add(-2 * time.Hour).Truncate(time.Second))
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "held", Annotations: map[string]string{
			v1alpha1.ChainProgressAnnotation: fmt.Sprintf(
				`{"from":"v1.30.0","target":"v1.33.0","began":%q,"steps":[{"to":"v1.31.0","began":%[1]q}]}`, since.UTC().Format(time.RFC3339)),
		}},
		Spec: clusterv1.ClusterSpec{Topology: clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.33.0"}},
	}
	gate := &v1alpha1.UpgradeGate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "night"},
		Spec: v1alpha1.UpgradeGateSpec{
			Steps:    []v1alpha1.GateStep{{At: "BeforeWorkersUpgrade"}},
			Requires: v1alpha1.GateRequirements{Approval: &v1alpha1.GateApproval{}},
		},
	}
	plane.Create(t, cluster, gate)
	cluster.Status = clusterv1.ClusterStatus{
		ControlPlane: &clusterv1.ClusterControlPlaneStatus{
			Versions:    []clusterv1.StatusVersion{{Version: "v1.31.0", Replicas: 1}},
			UpgradePlan: []clusterv1.StatusUpgradePlanVersion{{Version: "v1.32.0"}, {Version: "v1.33.0"}},
		},
		Conditions: []metav1.Condition{{
			Type: clusterv1.ClusterTopologyReconciledCondition, Status: metav1.ConditionFalse, LastTransitionTime: since,
			Reason:  clusterv1.ClusterTopologyReconciledClusterUpgradingReason,
			Message: "Cluster is upgrading to v1.33.0\n  * Following hooks are blocking upgrade: BeforeWorkersUpgrade: needs approval",
		}},
	}
	gate.Status = v1alpha1.UpgradeGateStatus{WaitingCount: 1, Waiting: []v1alpha1.GateWaiting{{
		Cluster: cluster.Name, ClusterUID: string(cluster.UID), At: "BeforeWorkersUpgrade", Version: "v1.31.0", Since: since,
	}}}
	for _, o := range []client.Object{cluster, gate} {
		if err := plane.Client.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// refuseMachine has the guard refuse to delete a machine of the pool, whose policy keeps it.
func refuseMachine(t *testing.T, extension *wire.Process, pool *wire.Pool) {
	t.Helper()
	machine := pool.Machine(t, "a")
	machine.TypeMeta = metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"}
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID("metrics"), Operation: admissionv1.Delete, Namespace: machine.Namespace, Name: machine.Name,
			OldObject: runtime.RawExtension{Raw: mustJSON(t, machine)},
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code, body, err := extension.Post(ctx, extension.Client(t, nil), extension.Guard+"/guard-machine", review)
	if err != nil || code != 200 || !strings.Contains(string(body), `"allowed":false`) {
		t.Fatalf("the guard answers %v %d %s", err, code, body)
	}
}
