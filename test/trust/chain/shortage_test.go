package chain_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/test/wire"
)

// TestShortage upgrades a Cluster whose pool lacks its machine. The shortage must not hold the upgrade. When the upgrade has moved the
// pool, its new Machine counts as missing until it has a Node: AfterWorkersUpgrade waits for that.
func TestShortage(t *testing.T) {
	c := newCluster(t, 1)
	// The MachineSet makes no Machine before the control plane reports a version, and none when it is paused.
	var set *clusterv1.MachineSet
	await(t, c, &clusterv1.MachineSetList{}, "the MachineSet exists", func(object *clusterv1.MachineSet) bool { set = object; return true })
	pause := fmt.Sprintf(`{"metadata": {"annotations": {%q: ""}}}`, clusterv1.PausedAnnotation)
	if err := c.Client.Patch(t.Context(), set, client.RawPatch(types.MergePatchType, []byte(pause))); err != nil {
		t.Fatal(err)
	}
	await(t, c, &clusterv1.MachineSetList{}, "the MachineSet is paused", func(object *clusterv1.MachineSet) bool {
		return meta.IsStatusConditionTrue(object.Status.Conditions, clusterv1.PausedCondition)
	})
	c.arrive(t, first)
	c.awaitTold(t, "ReconcileSucceeded")
	c.setTarget(t, second)
	c.awaitVersion(t, second)
	c.extension.want(t, "BeforeClusterUpgrade v1.32.0 while the control plane is at v1.31.0", "BeforeControlPlaneUpgrade v1.32.0 while the control plane is at v1.31.0")

	c.arrive(t, second)
	var machine *clusterv1.Machine
	await(t, c, &clusterv1.MachineList{}, "the pool has a new Machine", func(object *clusterv1.Machine) bool {
		machine = object
		return object.Spec.Version == second
	})
	c.awaitTold(t, "MachineDeployment a at "+second+" until all of its machines are there")
	if entries := c.extension.entries(); !strings.HasPrefix(entries[len(entries)-1], wire.BeforeWorkersUpgrade.Hook+" ") {
		t.Errorf("the hooks: %q", entries)
	}
	patch := fmt.Sprintf(`{"status": {"nodeRef": {"name": %q}}}`, machine.Name)
	if err := c.Client.Status().Patch(t.Context(), machine, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	c.awaitTold(t, "ReconcileSucceeded")
	c.extension.want(t,
		"BeforeClusterUpgrade v1.32.0 while the control plane is at v1.31.0", "BeforeControlPlaneUpgrade v1.32.0 while the control plane is at v1.31.0",
		"AfterControlPlaneUpgrade v1.32.0 while the control plane is at v1.32.0", "BeforeWorkersUpgrade v1.32.0 while the control plane is at v1.32.0",
		"AfterWorkersUpgrade v1.32.0 while the control plane is at v1.32.0", "AfterClusterUpgrade v1.32.0 while the control plane is at v1.32.0")
}
