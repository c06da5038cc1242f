package topology

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"

	"github.com/windlass-dev/windlass/internal/chain"
)

// The core does not import Cluster API, and what it writes is read by others under Cluster API's names.
func TestNamesAreClusterAPIs(t *testing.T) {
	t.Parallel()
	for ours, theirs := range map[string]string{
		chain.ReconcileSucceeded:                clusterv1.ClusterTopologyReconcileSucceededReason,
		chain.ReconcileFailed:                   clusterv1.ClusterTopologyReconciledFailedReason,
		chain.ClusterCreating:                   clusterv1.ClusterTopologyReconciledClusterCreatingReason,
		chain.ClusterUpgrading:                  clusterv1.ClusterTopologyReconciledClusterUpgradingReason,
		chain.MachineDeploymentsUpgradeDeferred: clusterv1.ClusterTopologyReconciledMachineDeploymentsUpgradeDeferredReason,
		chain.MachinePoolsUpgradeDeferred:       clusterv1.ClusterTopologyReconciledMachinePoolsUpgradeDeferredReason,
		chain.ClusterDeleting:                   clusterv1.ClusterTopologyReconciledDeletingReason,
		chain.ClusterPaused:                     clusterv1.ClusterTopologyReconcilePausedReason,
	} {
		if ours != theirs {
			t.Errorf("the condition's reason is %q here and %q in Cluster API", ours, theirs)
		}
	}
	for _, hook := range []chain.Hook{
		chain.BeforeClusterCreate, chain.AfterControlPlaneInitialized, chain.BeforeClusterUpgrade, chain.BeforeControlPlaneUpgrade,
		chain.AfterControlPlaneUpgrade, chain.BeforeWorkersUpgrade, chain.AfterWorkersUpgrade, chain.AfterClusterUpgrade, chain.BeforeClusterDelete,
	} {
		m, err := computeMessage(&clusterv1.Cluster{}, chain.State{}, chain.CallHook{Hook: hook}, chain.Decision{})
		if err != nil {
			t.Error(err)
			continue
		}
		if got := runtimecatalog.HookName(m.hook); got != string(hook) {
			t.Errorf("%s is called as %s", hook, got)
		}
	}
}
