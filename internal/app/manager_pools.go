package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/eventlimit"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/policystore"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/machinedeployment"
	"github.com/windlass-dev/windlass/internal/pool/machineset"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// deploymentEvents is the source of Events on MachineDeployments, as Cluster API's controller has it.
const deploymentEvents = "machinedeployment-controller"

// statusInterval is how late the status of a group may be about the steps of a rollout. A Machine takes
// several such steps in a few seconds, and each write of the group's status causes one of the Cluster's.
const statusInterval = 10 * time.Second

// addMachineDeployments adds the controller of MachineDeployments: ours.
func (b *builder) addMachineDeployments(ctx context.Context) error {
	options := b.deploymentOptions()
	handOvers, err := b.handOvers()
	if err != nil {
		return err
	}
	options.HandOvers = handOvers
	return machinedeployment.SetUpController(ctx, b.mgr, options, concurrency(b.Concurrency.MachineDeployment))
}

// deploymentOptions is what the controller of MachineDeployments works with, but for HandOvers.
func (b *builder) deploymentOptions() machinedeployment.Options {
	crds := b.policies()
	return machinedeployment.Options{
		Client: b.mgr.GetClient(), Runtime: b.runtimeClient, Now: time.Now,
		InPlace: feature.Gates.Enabled(feature.InPlaceUpdates), WatchFilter: b.WatchFilter,
		Keeps:          policyOf(policystore.New(b.mgr.GetClient(), b.Extension.Compiled), crds.check),
		KeepsNow:       policyNow(b.mgr.GetAPIReader(), b.Extension.Compiled, crds.look),
		PoliciesExist:  crds.check,
		StatusInterval: statusInterval,
		// Events of the old API, as Cluster API's controller records them.
		Recorder: eventlimit.CoreFor(b.mgr, deploymentEvents),
	}
}

// handOvers returns what hands groups over: the engine of the process. If UpdatePolicies were not installed
// when the process started, it has none; they may be installed later, so it gets one for hand-overs alone,
// which begin no update of a Machine that another engine would count.
func (b *builder) handOvers() (machinedeployment.HandOvers, error) {
	if limits, ok := b.limits.(*Limits); ok {
		return limits.engine, nil
	}
	c, err := newClients(b.mgr, b.Extension.Compiled)
	if err != nil {
		return nil, err
	}
	o := b.Extension.InPlaceUpgrades
	return newEngine(b.mgr, c, newUpdaterPool(c.live, o.prefix()), o, nil), nil
}

// addMachineSets adds the controller of MachineSets: ours.
func (b *builder) addMachineSets(ctx context.Context) error {
	crds := b.policies()
	options := machineset.Options{
		Client: b.mgr.GetClient(), APIReader: b.mgr.GetAPIReader(), ClusterCache: b.clusterCache,
		PreflightChecks: b.checked.preflightChecks, Now: time.Now, WatchFilter: b.WatchFilter,
		Policies:       policyOf(policystore.New(b.mgr.GetClient(), b.Extension.Compiled), crds.check),
		PoliciesExist:  crds.check,
		StatusInterval: statusInterval,
	}
	return machineset.SetUp(ctx, b.mgr, options, concurrency(b.Concurrency.MachineSet))
}

// policiesIn returns what reads the UpdatePolicies of a namespace: none while their CRDs are not installed.
func (b *builder) policiesIn() func(ctx context.Context, namespace string) (policy.Set, error) {
	crds, reader := b.policies(), policystore.New(b.mgr.GetClient(), b.Extension.Compiled)
	return func(ctx context.Context, namespace string) (policy.Set, error) {
		if installed, err := crds.check(); err != nil || !installed {
			return nil, err
		}
		return reader.In(ctx, namespace) //nolint:wrapcheck // It says what could not be listed.
	}
}

// policies finds out whether UpdatePolicies can exist. All controllers are told the same.
func (b *builder) policies() *installation {
	if b.crds == nil {
		b.crds = newInstallation(b.mgr.GetRESTMapper(), time.Now)
	}
	return b.crds
}

// policyOf returns what finds out which UpdatePolicy counts for a group.
func policyOf(
	reader policystore.Policies, exist func() (bool, error),
) func(context.Context, *clusterv1.Cluster, *clusterv1.MachineDeployment) (policy.Policy, error) {
	return func(
		ctx context.Context, cluster *clusterv1.Cluster, md *clusterv1.MachineDeployment,
	) (policy.Policy, error) {
		return selectPolicy(ctx, reader, exist, cluster, md)
	}
}

// policyNow is policyOf by what the API server has. A policy may select groups by the labels of
// their Cluster, which the cache may show late, too.
func policyNow(reader client.Reader, store *policy.Store, exist func() (bool, error)) machinedeployment.PolicyOf {
	of := policyOf(policystore.New(reader, store), func() (bool, error) { return true, nil })
	return func(
		ctx context.Context, cluster *clusterv1.Cluster, md *clusterv1.MachineDeployment,
	) (policy.Policy, error) {
		if installed, err := exist(); err != nil || !installed {
			return policy.Policy{}, err
		}
		live := capi.MetadataOf(clusterv1.GroupVersion.WithKind("Cluster"))
		key := client.ObjectKeyFromObject(cluster)
		if err := reader.Get(ctx, key, live); err != nil {
			return policy.Policy{}, fmt.Errorf("reading Cluster %s: %w", key, err)
		}
		labeled := *cluster
		labeled.Labels = live.Labels
		return of(ctx, &labeled, md)
	}
}

// selectPolicy returns the UpdatePolicy of a group. While nobody can tell which policy was meant, the
// limits hold rollouts, and no Machine is replaced if any policy of the namespace may forbid it.
func selectPolicy(
	ctx context.Context, reader policystore.Policies, exist func() (bool, error),
	cluster *clusterv1.Cluster, md *clusterv1.MachineDeployment,
) (policy.Policy, error) {
	if installed, err := exist(); err != nil || !installed {
		return policy.Policy{}, err
	}
	policies, err := reader.In(ctx, md.Namespace)
	if err != nil {
		return policy.Policy{}, err //nolint:wrapcheck // It says what could not be listed.
	}
	selected, err := policies.Select(snapshot.MachineDeploymentGroup(cluster, md))
	if err != nil {
		selected = policy.Undecided(err, slices.ContainsFunc(policies, func(p *policy.Compiled) bool {
			return pool.Keeps(p.Policy, md)
		}))
	}
	return selected, nil
}
