package demo

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Options are what Run needs beside a Scenario.
type Options struct {
	Plane *devplane.Plane
	// Programs are the paths of windlass, whose extension serves the plans, and of windlass-lab.
	Programs programs.Paths
	// Plan makes the plan of a Cluster on the plane to a target, as "windlass plan" does.
	Plan func(ctx context.Context, config *rest.Config, cluster types.NamespacedName, target version.Version) (plan.Request, error)
	// Show is told what happens. Calls do not overlap.
	Show Viewer
	// Now is the clock by which durations are reported.
	Now func() time.Time
	// Hosts are what a real cluster needs; a Scenario without one ignores it.
	Hosts HostOptions
}

// Viewer shows a run. Durations count from the beginning of Run.
type Viewer interface {
	// Phase begins a part of the run.
	Phase(what string)
	// Planned is called once, before the upgrade begins.
	Planned(request plan.Request, planned plan.Plan) error
	// Observed is called with everything that is seen. changes are those since the last call, begun is
	// the number of operations of the upgrade that have begun.
	Observed(o history.Objects, changes []history.Change, begun int)
	// Noted says something that happened besides.
	Noted(what string)
}

// Result is what a run has shown.
type Result struct {
	Request  plan.Request
	Planned  plan.Plan
	Observed []plan.Operation
	// Replaced counts the machines that the upgrade created, by group; the control plane's name is empty.
	Replaced map[string]int
	// WorkerReplicas has the size of each group.
	WorkerReplicas map[string]int
	// Duration is the upgrade's, without the preparations.
	Duration time.Duration
	// Finished says that the upgrade has ended, whatever came after.
	Finished bool
	// InPlace is nil where machines were replaced.
	InPlace *InPlaceResult
	// Real is nil where machines were simulated.
	Real *RealResult
}

// StuckError says that an upgrade did not get on.
type StuckError struct {
	// Doing is what was waited for.
	Doing string
	// Reconciled is the Cluster's TopologyReconciled condition at that time; zero when it had none.
	Reconciled metav1.Condition
	Err        error
}

func (e *StuckError) Error() string {
	text := fmt.Sprintf("%s: %v", e.Doing, e.Err)
	if e.Reconciled.Status != "" && e.Reconciled.Status != metav1.ConditionTrue {
		text += fmt.Sprintf("; the Cluster says %s: %s", e.Reconciled.Reason, e.Reconciled.Message)
	}
	return text
}

func (e *StuckError) Unwrap() error { return e.Err }

// Run creates the scenario's Cluster as Create does, plans, upgrades, and returns what it saw. ctx bounds it.
func Run(ctx context.Context, o Options, s Scenario) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := create(ctx, o, s)
	if err != nil {
		return Result{}, err
	}
	return r.upgrade(ctx)
}

// Create registers the extension, and brings the scenario's Cluster to where its upgrade begins. Options.Plan
// is not used. ctx bounds it.
func Create(ctx context.Context, o Options, s Scenario) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := create(ctx, o, s)
	return err
}

// create returns a runner that follows the Cluster until ctx ends.
func create(ctx context.Context, o Options, s Scenario) (*runner, error) {
	r, err := newRunner(o, s)
	if err != nil {
		return nil, err
	}
	o.Show.Phase("Starting the extension")
	if err := setup.Register(ctx, o.Plane, o.Programs.Windlass); err != nil {
		return nil, err
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	if r.history, err = history.Follow(ctx, r.config, r.client.Scheme()); err != nil {
		return nil, err
	}
	stages, err := s.computeStages()
	if err != nil {
		return nil, err
	}
	for _, stage := range stages {
		o.Show.Phase(stage.what)
		if err := r.reach(ctx, stage); err != nil {
			return nil, err
		}
	}
	if s.Real != nil {
		err = setup.WriteHostLogins(ctx, r.Plane, r.Hosts.Site, r.key())
	}
	return r, err
}

// prepare registers updaters, and applies all objects but the Cluster.
func (r *runner) prepare(ctx context.Context) error {
	if r.scenario.InPlace != nil {
		if err := r.prepareInPlace(ctx); err != nil {
			return err
		}
	}
	if err := setup.ApplyAll(ctx, r.client, r.scenario.Namespace, r.scenario.Objects); err != nil {
		return err
	}
	if r.scenario.Real != nil {
		return r.prepareReal(ctx)
	}
	return nil
}

type runner struct {
	Options
	scenario Scenario
	config   *rest.Config
	client   client.WithWatch
	history  *history.History
	updates  *updateLog
	// earlier is the number of changes before the upgrade.
	earlier int
}

func newRunner(o Options, s Scenario) (*runner, error) {
	c, err := setup.Connect(o.Plane)
	if err != nil {
		return nil, err
	}
	return &runner{Options: o, scenario: s, config: o.Plane.RESTConfig(), client: c, updates: newUpdateLog()}, nil
}

func (r *runner) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.scenario.Namespace, Name: r.scenario.Cluster.Name}
}

// applyCluster applies a form of the Cluster.
func (r *runner) applyCluster(ctx context.Context, cluster *clusterv1.Cluster) error {
	cluster = cluster.DeepCopy()
	cluster.Namespace = r.scenario.Namespace
	return setup.Apply(ctx, r.client, cluster)
}

// reach applies a stage's Cluster and waits until it is there.
func (r *runner) reach(ctx context.Context, s stage) error {
	if err := r.applyCluster(ctx, s.cluster); err != nil {
		return err
	}
	shown := r.earlier
	return r.await(ctx, s.what, func(o history.Objects) string {
		changes := r.history.Changes(r.key())
		if s.narrated {
			r.Show.Observed(o, changes[shown:], len(computeOperations(changes[r.earlier:])))
		} else {
			r.Show.Observed(o, nil, 0)
		}
		shown = len(changes)
		return s.missing(o)
	})
}

// await calls check with the objects now and after every change, until it returns "".
func (r *runner) await(ctx context.Context, what string, check func(history.Objects) (missing string)) error {
	var last history.Objects
	err := r.history.Until(ctx, func() string {
		last = r.history.Now(r.key())
		for _, u := range r.updates.observe(last) {
			r.Show.Noted("  " + u.String())
		}
		return check(last)
	})
	if err != nil {
		return &StuckError{Doing: what, Reconciled: last.Cluster.Reconciled(), Err: err}
	}
	return nil
}

// upgrade plans, sets the target, and follows what happens until everything is there.
func (r *runner) upgrade(ctx context.Context) (Result, error) {
	request, err := r.Plan(ctx, r.config, r.key(), r.scenario.Target)
	if err != nil {
		return Result{}, err
	}
	planned, err := plan.Compute(request)
	if err != nil {
		return Result{}, err
	}
	if err := r.Show.Planned(request, planned); err != nil {
		return Result{}, err
	}
	first, before := r.history.Now(r.key()), census(r.history.Machines(r.scenario.Namespace))
	result := Result{Request: request, Planned: planned, WorkerReplicas: map[string]int{}, Replaced: map[string]int{}}
	for name, g := range first.Groups {
		result.WorkerReplicas[name] = int(g.Replicas)
	}
	var kept *inPlaceRun
	if r.scenario.InPlace != nil {
		kept = r.watchMachines(first, before)
		result.InPlace = kept.result
	}
	var client *realRun
	if r.scenario.Real != nil {
		if client, err = r.watchReal(ctx); err != nil {
			return result, err
		}
		result.Real = client.result
	}
	r.earlier = len(r.history.Changes(r.key()))
	started := r.Now()
	what := fmt.Sprintf("Upgrading Cluster %s to %s", r.scenario.Cluster.Name, r.scenario.Target)
	r.Show.Phase(what)
	err = r.reach(ctx, r.scenario.finalStage(what, true))
	result.Duration = r.Now().Sub(started)
	result.Observed = computeOperations(r.history.Changes(r.key())[r.earlier:])
	created, _ := census(r.history.Machines(r.scenario.Namespace)).since(before)
	for _, m := range created {
		result.Replaced[m.Group]++
	}
	result.Finished = err == nil
	if result.Finished && kept != nil {
		err = kept.keep(ctx)
	}
	if client != nil {
		err = client.finish(ctx, err)
	}
	return result, err
}
