package chain_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

// TestMetrics holds an upgrade by a hook, and has a MachineDeployment that is blocked. A manager
// beside which nobody serves Windlass' extension tells of both, and of its calls.
func TestMetrics(t *testing.T) {
	c := newCluster(t, 0)
	c.arrive(t, first)
	c.awaitTold(t, "ReconcileSucceeded")
	c.extension.block(wire.AfterControlPlaneUpgrade, true)
	c.setTarget(t, second)
	c.awaitVersion(t, second)
	c.arrive(t, second)
	c.awaitTold(t, "hook AfterControlPlaneUpgrade for "+second+" is blocking")

	c.block(t, "stuck")

	var served wire.Families
	labels := map[string]string{"cluster_namespace": c.namespace, "cluster": "c", "reason": "Hook"}
	blocked := map[string]string{
		"cluster_namespace": c.namespace, "cluster": "c", "machinedeployment": "stuck",
		"reason": v1alpha1.UpdateFailedReason,
	}
	loopback.Eventually(t, "the manager tells of the hook and of the MachineDeployment", func() bool {
		served = wire.Scrape(t, http.DefaultClient, "http://"+c.manager.Diagnostics)
		_, held := served.Value("windlass_cluster_upgrade_held_seconds", labels)
		_, stuck := served.Value("windlass_machinedeployment_blocked", blocked)
		return held && stuck
	})
	wire.CheckServed(t, served, func(name string) bool {
		return slices.Contains([]string{
			"windlass_leader", "windlass_cluster_upgrade_info", "windlass_cluster_upgrade_step", "windlass_cluster_upgrade_steps_left",
			"windlass_cluster_upgrade_held_seconds", "windlass_hook_requests_total", "windlass_hook_request_duration_seconds",
			"windlass_machinedeployment_blocked",
		}, name)
	})
	for family, want := range map[string]float64{"windlass_cluster_upgrade_step": 1, "windlass_cluster_upgrade_steps_left": 0} {
		delete(labels, "reason")
		if got, found := served.Value(family, labels); !found || got != want {
			t.Errorf("%s is %v (%t), want %v", family, got, found, want)
		}
	}
	// Hooks that are called after the end of the test would fail it.
	c.extension.block(wire.AfterControlPlaneUpgrade, false)
	c.awaitTold(t, "ReconcileSucceeded")
}

// block creates a MachineDeployment of the Cluster that has the condition UpdateBlocked, as the
// engine of updates sets it.
func (c *cluster) block(t *testing.T, name string) {
	t.Helper()
	labels := map[string]string{"group": name}
	md := &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.namespace, Name: name,
			Annotations: map[string]string{clusterv1.PausedAnnotation: ""},
		},
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: "c", Replicas: new(int32(0)), Selector: metav1.LabelSelector{MatchLabels: labels},
			Template: clusterv1.MachineTemplateSpec{
				ObjectMeta: clusterv1.ObjectMeta{Labels: labels},
				Spec: clusterv1.MachineSpec{
					ClusterName: "c", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("none")},
					InfrastructureRef: clusterv1.ContractVersionedObjectReference{
						APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DevMachineTemplate", Name: "none",
					},
				},
			},
		},
	}
	c.Create(t, md)
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"True","reason":%q,`+
		`"message":"","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`,
		v1alpha1.UpdateBlockedCondition, v1alpha1.UpdateFailedReason)
	if err := c.Client.Status().Patch(t.Context(), md, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}
