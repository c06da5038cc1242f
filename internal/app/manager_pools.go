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

// statusInterval is how late the status of a group may be about the steps of a rollout. A Machine takes
// several such steps in a few seconds, and each write of the group's status causes one of the Cluster's.
const statusInterval = 5 * time.Second

// addMachineDeployments adds the controller of MachineDeployments: ours.
func (b *builder) addMachineDeployments(ctx context.Context) error {
	installed, err := lookForPolicies(b.mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	options := machinedeployment.Options{
		Client: b.mgr.GetClient(), Runtime: b.runtimeClient, Now: time.Now,
		InPlace: feature.Gates.Enabled(feature.InPlaceUpdates), WatchFilter: b.WatchFilter,
		StatusInterval: statusInterval,
		//nolint:staticcheck // Events of the old API, as Cluster API's controller records them.
		Recorder: b.mgr.GetEventRecorderFor(deploymentEvents),
	}
	if installed {
		options.Keeps = keptBy(b.mgr.GetClient())
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
		StatusInterval: statusInterval,
	}
	if installed {
		kept := keptBy(b.mgr.GetClient())
		// Machines that must not be replaced are updated where stock deletes unhealthy ones.
		options.Policies = func(ctx context.Context, cluster *clusterv1.Cluster, md *clusterv1.MachineDeployment) (pool.SetPolicy, error) {
			policy, err := kept(ctx, cluster, md)
			return pool.SetPolicy{RepairByUpdate: policy.Keep, HoldUpdating: policy.Keep}, err
		}
	}
	return machineset.SetUp(ctx, b.mgr, options, concurrency(b.Concurrency.MachineSet))
}

// keptBy returns what finds out whether an UpdatePolicy forbids to replace the Machines of a group. While
// nobody can tell which policy was meant, it does, if any policy of the namespace may.
func keptBy(reader client.Reader) func(context.Context, *clusterv1.Cluster, *clusterv1.MachineDeployment) (machinedeployment.Policy, error) {
	return func(ctx context.Context, cluster *clusterv1.Cluster, md *clusterv1.MachineDeployment) (machinedeployment.Policy, error) {
		var policies v1alpha1.UpdatePolicyList
		if err := reader.List(ctx, &policies, client.InNamespace(md.Namespace)); err != nil {
			return machinedeployment.Policy{}, fmt.Errorf("listing UpdatePolicies in %s: %w", md.Namespace, err)
		}
		mayKeep := func(p v1alpha1.UpdatePolicy) bool { return updatepolicy.MayGuard(&p) }
		if !slices.ContainsFunc(policies.Items, mayKeep) {
			return machinedeployment.Policy{}, nil
		}
		selected, err := updatepolicy.Select(policies.Items, snapshot.MachineDeploymentGroup(cluster, md))
		if err != nil {
			return machinedeployment.Policy{Keep: true}, nil //nolint:nilerr // The engine reports it when it is asked.
		}
		return machinedeployment.Policy{Keep: selected.Guarded, Name: selected.Name}, nil
	}
}
