package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/machinedeployment"
	"github.com/windlass-dev/windlass/internal/pool/machineset"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// deploymentEvents is the source of Events on MachineDeployments, as Cluster API's controller has it.
const deploymentEvents = "machinedeployment-controller"

// addMachineDeployments adds the controller of MachineDeployments: ours.
func (b *builder) addMachineDeployments(ctx context.Context) error {
	installed, err := lookForPolicies(b.mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	options := machinedeployment.Options{
		Client: b.mgr.GetClient(), Runtime: b.runtimeClient, Now: time.Now,
		InPlace: feature.Gates.Enabled(feature.InPlaceUpdates), WatchFilter: b.WatchFilter,
		//nolint:staticcheck // Events of the old API, as Cluster API's controller records them.
		Recorder: b.mgr.GetEventRecorderFor(deploymentEvents),
	}
	if installed {
		options.Keeps = policyOf(b.mgr.GetClient())
	}
	return machinedeployment.SetUpController(ctx, b.mgr, options, concurrency(b.Concurrency.MachineDeployment))
}

// addMachineSets adds the controller of MachineSets: ours.
func (b *builder) addMachineSets(ctx context.Context) error {
	installed, err := lookForPolicies(b.mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	options := machineset.Options{
		Client: b.mgr.GetClient(), APIReader: b.mgr.GetAPIReader(), ClusterCache: b.clusterCache,
		PreflightChecks: b.checked.preflightChecks, Now: time.Now, WatchFilter: b.WatchFilter,
	}
	if installed {
		kept := policyOf(b.mgr.GetClient())
		// Machines that must not be replaced are updated where stock deletes unhealthy ones.
		options.Policies = func(ctx context.Context, cluster *clusterv1.Cluster, md *clusterv1.MachineDeployment) (pool.SetPolicy, error) {
			policy, err := kept(ctx, cluster, md)
			return pool.SetPolicy{RepairByUpdate: policy.Keep, HoldUpdating: policy.Keep}, err
		}
	}
	return machineset.SetUp(ctx, b.mgr, options, concurrency(b.Concurrency.MachineSet))
}

// policyOf returns what finds out what an UpdatePolicy asks for a group. While nobody can tell which
// policy was meant, rollouts are held, and no Machine is replaced if any policy of the namespace may
// forbid it.
func policyOf(reader client.Reader) func(context.Context, *clusterv1.Cluster, *clusterv1.MachineDeployment) (machinedeployment.Policy, error) {
	return func(ctx context.Context, cluster *clusterv1.Cluster, md *clusterv1.MachineDeployment) (machinedeployment.Policy, error) {
		var policies v1alpha1.UpdatePolicyList
		if err := reader.List(ctx, &policies, client.InNamespace(md.Namespace)); err != nil {
			return machinedeployment.Policy{}, fmt.Errorf("listing UpdatePolicies in %s: %w", md.Namespace, err)
		}
		selected, err := updatepolicy.Select(policies.Items, snapshot.MachineDeploymentGroup(cluster, md))
		if err != nil {
			mayKeep := func(p v1alpha1.UpdatePolicy) bool { return updatepolicy.MayGuard(&p) }
			return machinedeployment.Policy{ //nolint:nilerr // Limits.Unknown reports it.
				Keep: slices.ContainsFunc(policies.Items, mayKeep), Limits: &pool.Limits{Unknown: err.Error()},
			}, nil
		}
		policy := machinedeployment.Policy{Keep: selected.Guarded, Name: selected.Name}
		if selected.Name != "" {
			policy.Limits = &selected.Limits
		}
		return policy, nil
	}
}
