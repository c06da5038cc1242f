package machineset

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/internal/util/ssa"
	capicontrollerutil "sigs.k8s.io/cluster-api/util/controller"

	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/machineset"
)

const (
	machineSetManagerName         = "capi-machineset"
	machineSetMetadataManagerName = "capi-machineset-metadata"
)

var machineSetKind = clusterv1.GroupVersion.WithKind("MachineSet")

// Reconciler has the fields of upstream's. ssaCache and the last field have no counterpart in ours.
type Reconciler struct {
	Client                          client.Client
	APIReader                       client.Reader
	ClusterCache                    clustercache.ClusterCache
	machineClientWithDeleteResponse capicontrollerutil.ClientWithDeleteResponse
	PreflightChecks                 sets.Set[clusterv1.MachineSetPreflightCheck]
	WatchFilterValue                string
	ssaCache                        ssa.Cache
	controller                      capicontrollerutil.Controller
	recorder                        record.EventRecorder

	overrideCleanupOrphanedBootstrapConfigsInfraMachines func(ctx context.Context, s *scope) error
	overrideCreateMachines                               func(
		ctx context.Context, s *scope, count int,
	) (ctrl.Result, error)
	overrideMoveMachines func(
		ctx context.Context, s *scope, target string, count int,
	) (ctrl.Result, error)
	overrideDeleteMachines func(
		ctx context.Context, s *scope, count int,
	) (ctrl.Result, error)

	disableRemoveManagedFieldsForLabelsAndAnnotations bool
}

// scope has the fields of upstream's.
type scope struct {
	machineSet                                *clusterv1.MachineSet
	cluster                                   *clusterv1.Cluster
	machines                                  []*clusterv1.Machine
	bootstrapObjectNotFound                   bool
	infrastructureObjectNotFound              bool
	getAndAdoptMachinesForMachineSetSucceeded bool
	owningMachineDeployment                   *clusterv1.MachineDeployment
	scaleUpPreflightCheckErrMessages          []string
	reconciliationTime                        time.Time
}

func (r *Reconciler) options() machineset.Options {
	return machineset.Options{
		Client: r.Client, APIReader: r.APIReader, ClusterCache: r.ClusterCache, Now: time.Now,
		PreflightChecks: r.PreflightChecks, WatchFilter: r.WatchFilterValue,
	}
}

// ours returns our Reconciler. Tests without an API server have no APIReader, some no controller.
func (r *Reconciler) ours() *machineset.Reconciler {
	o := r.options()
	if o.APIReader == nil {
		o.APIReader = r.Client
	}
	parts := machineset.Parts{
		Controller: r.controller, Recorder: r.recorder, Deleter: r.machineClientWithDeleteResponse,
	}
	if parts.Controller == nil {
		parts.Controller = capicontrollerutil.NewFakeController()
	}
	if override := r.overrideCleanupOrphanedBootstrapConfigsInfraMachines; override != nil {
		parts.DeleteUnused = func(ctx context.Context, _ *machineset.Run) error {
			return override(ctx, nil)
		}
	}
	return machineset.New(o, parts)
}

// run does a step of ours on a scope.
func (r *Reconciler) run(
	s *scope,
	do func(*machineset.Run) (machineset.Next, error),
) (ctrl.Result, bool, error) {
	run := &machineset.Run{
		Reconciler:            r.ours(),
		Cluster:               s.cluster,
		Set:                   s.machineSet,
		Deployment:            s.owningMachineDeployment,
		Machines:              s.machines,
		Listed:                s.getAndAdoptMachinesForMachineSetSucceeded,
		Start:                 time.Now(),
		BootstrapMissing:      s.bootstrapObjectNotFound,
		InfrastructureMissing: s.infrastructureObjectNotFound,
	}
	next, err := do(run)
	s.machines, s.getAndAdoptMachinesForMachineSetSucceeded = run.Machines, run.Listed
	s.scaleUpPreflightCheckErrMessages = run.Blocked
	return ctrl.Result{RequeueAfter: next.After}, next.Stop, err
}

func withoutStop(result ctrl.Result, _ bool, err error) (ctrl.Result, error) { return result, err }

func (r *Reconciler) SetupWithManager(
	ctx context.Context,
	mgr ctrl.Manager,
	options controller.Options,
) error {
	return machineset.SetUp(ctx, mgr, r.options(), options)
}

func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return r.ours().Reconcile(ctx, request)
}

func (r *Reconciler) MachineToMachineSets(ctx context.Context, o client.Object) []ctrl.Request {
	return r.ours().SetsOfOrphan(ctx, o)
}

func (r *Reconciler) getAndAdoptMachinesForMachineSet(
	ctx context.Context,
	s *scope,
) (ctrl.Result, bool, error) {
	return r.run(
		s,
		func(run *machineset.Run) (machineset.Next, error) { return run.ReadMachines(ctx) },
	)
}

func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) (ctrl.Result, error) {
	return withoutStop(
		r.run(s, func(run *machineset.Run) (machineset.Next, error) { return run.DeleteAll(ctx) }),
	)
}

func (r *Reconciler) reconcileUnhealthyMachines(
	ctx context.Context,
	s *scope,
) (ctrl.Result, error) {
	return withoutStop(
		r.run(s, func(run *machineset.Run) (machineset.Next, error) { return run.Remediate(ctx) }),
	)
}

func (r *Reconciler) syncMachines(ctx context.Context, s *scope) (ctrl.Result, bool, error) {
	return r.run(
		s,
		func(run *machineset.Run) (machineset.Next, error) { return run.SyncMachines(ctx) },
	)
}

func (r *Reconciler) triggerInPlaceUpdate(ctx context.Context, s *scope) (ctrl.Result, error) {
	return withoutStop(
		r.run(
			s,
			func(run *machineset.Run) (machineset.Next, error) { return run.CompleteMoves(ctx) },
		),
	)
}

func (r *Reconciler) completeMoveMachine(
	ctx context.Context,
	s *scope,
	m *clusterv1.Machine,
) error {
	_, _, err := r.run(s, func(run *machineset.Run) (machineset.Next, error) {
		return machineset.Next{}, run.WriteTemplate(ctx, m)
	})
	return err
}

// syncReplicas calls what tests put in the place of the steps of Scale, or else Scale.
func (r *Reconciler) syncReplicas(ctx context.Context, s *scope) (ctrl.Result, error) {
	if r.overrideCreateMachines == nil {
		return withoutStop(
			r.run(s, func(run *machineset.Run) (machineset.Next, error) { return run.Scale(ctx) }),
		)
	}
	scaling, err := factsOf(s.machineSet, s.machines, true).Scale()
	if err != nil {
		return ctrl.Result{}, err
	}
	switch scaling.Action {
	case pool.Create:
		return r.overrideCreateMachines(ctx, s, scaling.Count)
	case pool.Update:
		return r.overrideMoveMachines(ctx, s, scaling.Target, scaling.Count)
	case pool.Delete:
		return r.overrideDeleteMachines(ctx, s, scaling.Count)
	}
	return ctrl.Result{}, nil
}

func (r *Reconciler) createMachines(ctx context.Context, s *scope, count int) (ctrl.Result, error) {
	return withoutStop(r.run(s, func(run *machineset.Run) (machineset.Next, error) {
		return run.CreateMachines(ctx, count)
	}))
}

func (r *Reconciler) deleteMachines(ctx context.Context, s *scope, count int) (ctrl.Result, error) {
	return withoutStop(r.run(s, func(run *machineset.Run) (machineset.Next, error) {
		return machineset.Next{}, run.DeleteMachines(ctx, count)
	}))
}

func (r *Reconciler) startMoveMachines(
	ctx context.Context,
	s *scope,
	target string,
	count int,
) (ctrl.Result, error) {
	return withoutStop(r.run(s, func(run *machineset.Run) (machineset.Next, error) {
		return machineset.Next{}, run.MoveMachines(ctx, target, count)
	}))
}

func (r *Reconciler) reconcileV1Beta1Status(ctx context.Context, s *scope) error {
	_, _, err := r.run(s, func(run *machineset.Run) (machineset.Next, error) {
		return machineset.Next{}, run.UpdateOldStatus(ctx)
	})
	return err
}

func (r *Reconciler) adoptOrphan(
	ctx context.Context,
	ms *clusterv1.MachineSet,
	m *clusterv1.Machine,
) error {
	_, _, err := r.run(&scope{machineSet: ms}, func(run *machineset.Run) (machineset.Next, error) {
		return machineset.Next{}, run.Adopt(ctx, m)
	})
	return err
}

func (r *Reconciler) computeDesiredMachine(
	ms *clusterv1.MachineSet,
	current *clusterv1.Machine,
) (*clusterv1.Machine, error) {
	if current == nil {
		return r.ours().NewMachine(ms)
	}
	return machineset.DesiredMachine(ms, current), nil
}

func shouldExcludeMachine(ms *clusterv1.MachineSet, m *clusterv1.Machine) bool {
	return machineset.IsForeign(ms, m)
}

func sortMachinesToRemediate(machines []*clusterv1.Machine) {
	copy(machines, pool.RemediationOrder(machines))
}
