package app

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/windlass-dev/windlass/internal/metrics"
	"github.com/windlass-dev/windlass/internal/refusal"
)

// metricsScope selects the metrics that a process serves beside the updates that it counts.
type metricsScope struct {
	serves metrics.Role
	// upgrades reports whether it serves metrics of upgrades, gates and machines in flight; nil
	// means always.
	upgrades func(context.Context) bool
	// gates and machines report whether its cache has UpgradeGates, and the metadata of Machines.
	gates, machines bool
	// deployments reports whether its cache has whole MachineDeployments, as that of a manager.
	deployments bool
	// filter is the value of the watch label of its Clusters; empty means all.
	filter string
}

// addMetrics registers the metrics of Clusters. It can be called once in a process.
func addMetrics(mgr manager.Manager, updates *metrics.Updates, scope metricsScope) error {
	if scope.upgrades == nil {
		scope.upgrades = func(context.Context) bool { return true }
	}
	collector := metrics.NewCollector(metrics.Options{
		Reader: mgr.GetCache(), Serves: scope.serves, Elected: mgr.Elected(),
		Upgrades: scope.upgrades,
		Gates:    scope.gates, Machines: scope.machines, Deployments: scope.deployments,
		Filter:  scope.filter,
		Updates: updates, Now: time.Now, Log: mgr.GetLogger().WithName("metrics"),
		Most: metrics.MaxSets,
	})
	if err := crmetrics.Registry.Register(collector); err != nil {
		return fmt.Errorf("registering the metrics of Clusters: %w", err)
	}
	return refusal.Register(crmetrics.Registry)
}

// addActive registers the metric of the label of the active Pod. It can be called once in a process.
func addActive(labelled func() bool) error {
	if err := crmetrics.Registry.Register(metrics.NewActive(labelled)); err != nil {
		return fmt.Errorf("registering the metric of the active Pod: %w", err)
	}
	return nil
}

// addMetrics registers the metrics of a manager that does not serve the extension.
func (b *builder) addMetrics(updates *metrics.Updates) error {
	installed, err := lookForPolicies(b.mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	return addMetrics(b.mgr, updates, metricsScope{
		serves: metrics.Manager, upgrades: b.servesUpgrades,
		machines:    installed && !b.Extension.InPlaceUpgrades.Off,
		deployments: true, filter: b.WatchFilter,
	})
}

// servesUpgrades reports whether this process serves metrics of upgrades: whether no other process
// serves the extension, which knows gates.
func (b *builder) servesUpgrades(ctx context.Context) bool {
	if !feature.Gates.Enabled(feature.RuntimeSDK) {
		return true
	}
	config := &runtimev1.ExtensionConfig{}
	err := b.mgr.GetCache().Get(ctx, client.ObjectKey{Name: b.ExtensionConfig}, config)
	return apierrors.IsNotFound(err)
}
