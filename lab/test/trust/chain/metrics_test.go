package chain_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

// TestMetrics holds an upgrade by a hook. A manager beside which nobody serves Windlass' extension
// tells of it, and of its calls.
func TestMetrics(t *testing.T) {
	c := newCluster(t, 0)
	c.arrive(t, first)
	c.awaitTold(t, "ReconcileSucceeded")
	c.extension.block(wire.AfterControlPlaneUpgrade, true)
	c.setTarget(t, second)
	c.awaitVersion(t, second)
	c.arrive(t, second)
	c.awaitTold(t, "hook AfterControlPlaneUpgrade for "+second+" is blocking")

	var served wire.Families
	labels := map[string]string{"cluster_namespace": c.namespace, "cluster": "c", "reason": "Hook"}
	loopback.Eventually(t, "the manager tells of the hook", func() bool {
		served = wire.Scrape(t, http.DefaultClient, "http://"+c.manager.Diagnostics)
		_, held := served.Value("windlass_cluster_upgrade_held_seconds", labels)
		return held
	})
	wire.CheckServed(t, served, func(name string) bool {
		return slices.Contains([]string{
			"windlass_leader", "windlass_cluster_upgrade_info", "windlass_cluster_upgrade_step", "windlass_cluster_upgrade_steps_left",
			"windlass_cluster_upgrade_held_seconds", "windlass_hook_requests_total", "windlass_hook_request_duration_seconds",
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
