package chain_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/test/wire"
)

// TestLastingShortage upgrades a Cluster whose pool lacks its machine, before and after the upgrade has moved the pool. The shortage
// must hold nothing: it may last for as long as there is no quota.
func TestLastingShortage(t *testing.T) {
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
	c.arrive(t, second)
	await(t, c, &clusterv1.MachineList{}, "the pool has a new Machine, which never gets a Node", func(object *clusterv1.Machine) bool {
		return object.Spec.Version == second
	})
	c.awaitTold(t, "ReconcileSucceeded")
	c.extension.want(t, wholeUpgrade...)
}

// TestShortage has a pool lack a machine only after the upgrade has moved the pool. The machine must join before the control plane
// goes on, so AfterWorkersUpgrade waits until it has a Node.
func TestShortage(t *testing.T) {
	c := newCluster(t, 0)
	c.arrive(t, first)
	c.awaitTold(t, "ReconcileSucceeded")
	c.extension.block(wire.AfterWorkersUpgrade, true)
	c.setTarget(t, second)
	c.awaitVersion(t, second)
	c.arrive(t, second)
	c.extension.await(t, wire.AfterWorkersUpgrade)
	c.patch(t, `{"spec": {"topology": {"workers": {"machineDeployments": [{"class": "worker", "name": "a", "replicas": 1}]}}}}`)
	var machine *clusterv1.Machine
	await(t, c, &clusterv1.MachineList{}, "the pool has a Machine", func(object *clusterv1.Machine) bool {
		machine = object
		return object.Spec.Version == second
	})
	c.awaitTold(t, "MachineDeployment a at "+second+" until the machines have joined (missing: 1, before this step: 0)")
	c.extension.block(wire.AfterWorkersUpgrade, false)
	patch := fmt.Sprintf(`{"status": {"nodeRef": {"name": %q}}}`, machine.Name)
	if err := c.Client.Status().Patch(t.Context(), machine, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	c.awaitTold(t, "ReconcileSucceeded")
	c.extension.want(t, wholeUpgrade...)
}

// wholeUpgrade is what the extension hears of an upgrade of one minor.
var wholeUpgrade = []string{
	"BeforeClusterUpgrade v1.32.0 while the control plane is at v1.31.0",
	"BeforeControlPlaneUpgrade v1.32.0 while the control plane is at v1.31.0",
	"AfterControlPlaneUpgrade v1.32.0 while the control plane is at v1.32.0",
	"BeforeWorkersUpgrade v1.32.0 while the control plane is at v1.32.0",
	"AfterWorkersUpgrade v1.32.0 while the control plane is at v1.32.0",
	"AfterClusterUpgrade v1.32.0 while the control plane is at v1.32.0",
}
