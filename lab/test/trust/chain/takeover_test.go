package chain_test

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/lab/test/wire"
)

// blocker is an annotation that keeps upgrades from beginning.
const blocker = clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/test"

// TestTakeover raises the target of a Cluster whose last upgrade Cluster API's own engine has finished, but for AfterClusterUpgrade,
// which blocks. The manager must end that upgrade, wait for the annotation, and ask for the new target before it moves the control plane.
func TestTakeover(t *testing.T) {
	c := newCluster(t, 1)
	c.arrive(t, first)
	await(t, c, &clusterv1.MachineList{}, "a machine exists", func(*clusterv1.Machine) bool { return true })
	c.awaitTold(t, "ReconcileSucceeded")
	c.stop(t)
	c.leaveAsStock(t)
	c.patch(t, `{"metadata": {"annotations": {"`+blocker+`": ""}}}`)
	c.setTarget(t, second)
	c.extension.block(wire.AfterClusterUpgrade, true)

	c.start(t)
	c.extension.await(t, wire.AfterClusterUpgrade)
	c.awaitTold(t, "hook AfterClusterUpgrade for "+first+" is blocking")
	c.extension.await(t, wire.AfterClusterUpgrade)
	c.extension.note("AfterClusterUpgrade passes")
	c.extension.block(wire.AfterClusterUpgrade, false)
	c.awaitTold(t, blocker)
	c.extension.note("the annotation is removed")
	c.extension.block(wire.BeforeClusterUpgrade, true)
	c.patch(t, `{"metadata": {"annotations": {"`+blocker+`": null}}}`)
	c.extension.await(t, wire.BeforeClusterUpgrade)
	c.awaitTold(t, "hook BeforeClusterUpgrade for "+second+" is blocking")
	c.extension.note("BeforeClusterUpgrade passes")
	c.extension.block(wire.BeforeClusterUpgrade, false)
	c.awaitVersion(t, second)

	c.extension.want(t,
		"AfterClusterUpgrade v1.31.0 while the control plane is at v1.31.0",
		"AfterClusterUpgrade passes",
		"AfterClusterUpgrade v1.31.0 while the control plane is at v1.31.0",
		"the annotation is removed",
		"BeforeClusterUpgrade v1.32.0 while the control plane is at v1.31.0",
		"BeforeClusterUpgrade passes",
		"BeforeClusterUpgrade v1.32.0 while the control plane is at v1.31.0",
		"BeforeControlPlaneUpgrade v1.32.0 while the control plane is at v1.31.0",
	)
}
