package app

import (
	"context"
	"fmt"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windlass-dev/windlass/internal/controllers"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/engine"
	"github.com/windlass-dev/windlass/internal/metrics"
	"github.com/windlass-dev/windlass/internal/policy"
)

// addUpdates adds the engine of updates in place to a manager that does not serve the extension. It
// updates Machines that are marked and that no registered extension updates, carries out the upgrades
// that annotations ask for, and tells how far updates move the machines of a group.
func (b *builder) addUpdates(ctx context.Context) error {
	updates := metrics.NewUpdates(metrics.MaxSets)
	e, err := setUpUpdates(ctx, b.mgr, b.Extension.InPlaceUpgrades, b.Extension.Compiled, updates, b.servesUpgrades)
	if err != nil {
		return err
	}
	b.updates = notInstalled{}
	if e != nil {
		b.updates, b.limits = e, &Limits{engine: e}
	}
	return b.addMetrics(updates)
}

// setUpUpdates returns the one engine of a process that does not serve the extension; nil if
// UpdatePolicies are not installed when it starts. A second engine would not know which updates the
// first one has begun, and would count its own only. updates counts results. serves reports whether
// no other process serves the extension.
func setUpUpdates(
	ctx context.Context, mgr manager.Manager, o InPlaceUpgrades, compiled *policy.Store, updates *metrics.Updates,
	serves func(context.Context) bool,
) (*engine.Engine, error) {
	installed, err := lookForPolicies(mgr.GetRESTMapper())
	if err != nil {
		return nil, err
	}
	if !installed {
		mgr.GetLogger().Info("There are no UpdatePolicies here. So this program updates nothing in place, " +
			"also if annotations ask for it, and plans upgrades without limits of updates in place. " +
			"To use them, install the CRDs with kubectl apply -k config/crd and restart this program")
		return nil, nil //nolint:nilnil // There is no engine, which is no error.
	}
	if err := watchMachines(ctx, mgr); err != nil {
		return nil, err
	}
	c, err := newClients(mgr, compiled)
	if err != nil {
		return nil, err
	}
	updaters, err := addUpdaterPool(mgr, c.live, o.prefix())
	if err != nil {
		return nil, err
	}
	e := newEngine(mgr, c, updaters, o, updates)
	if err := addSweeper(mgr, sweptWhile{Swept: e, serves: serves}); err != nil {
		return nil, err
	}
	if err := addPrefetcher(mgr, e, serves); err != nil {
		return nil, err
	}
	return e, addInPlaceUpgrades(mgr, c, e, o)
}

// sweptWhile sweeps only while no other process does: two would follow the same move of a Cluster.
type sweptWhile struct {
	controllers.Swept

	serves func(context.Context) bool
}

// Unblock implements controllers.Swept.
func (s sweptWhile) Unblock(ctx context.Context) error {
	if !s.serves(ctx) {
		return nil
	}
	return s.Swept.Unblock(ctx) //nolint:wrapcheck // It is this method.
}

// SweepMachines implements controllers.Swept.
func (s sweptWhile) SweepMachines(ctx context.Context) error {
	if !s.serves(ctx) {
		return nil
	}
	return s.Swept.SweepMachines(ctx) //nolint:wrapcheck // It is this method.
}

// notInstalled refuses all updates of marked Machines: without Updaters and UpdatePolicies nobody
// knows who updates them.
type notInstalled struct{}

// UpdateMachine returns an error.
func (notInstalled) UpdateMachine(
	_ context.Context, request *runtimehooksv1.UpdateMachineRequest,
) (inplace.Reply, error) {
	return inplace.Reply{}, fmt.Errorf("cannot update Machine %s in place: no extension for the hook "+
		"UpdateMachine is registered, and the CRDs of Updater and UpdatePolicy are missing. Fix: register the "+
		"extension that decided on the update, or install the CRDs with kubectl apply -k config/crd, create an "+
		"Updater and an UpdatePolicy, and restart this manager",
		client.ObjectKeyFromObject(&request.Desired.Machine))
}
