package machinedeployment

import (
	"context"
	"time"

	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/collections"
	capicontrollerutil "sigs.k8s.io/cluster-api/util/controller"

	"github.com/windlass-dev/windlass/internal/pool"
	ours "github.com/windlass-dev/windlass/internal/pool/machinedeployment"
)

var machineDeploymentKind = clusterv1.GroupVersion.WithKind("MachineDeployment")

// Reconciler has the fields that upstream's tests set.
type Reconciler struct {
	Client           client.Client
	APIReader        client.Reader
	RuntimeClient    runtimeclient.Client
	WatchFilterValue string

	controller capicontrollerutil.Controller
	recorder   record.EventRecorder
}

// scope has the fields that upstream's tests set and read.
type scope struct {
	machineDeployment *clusterv1.MachineDeployment
	machineSets       []*clusterv1.MachineSet
	machines          collections.Machines

	bootstrapTemplateNotFound, infrastructureTemplateNotFound bool
	getAndAdoptMachineSetsForDeploymentSucceeded              bool
}

func (r *Reconciler) options(recorder record.EventRecorder) ours.Options {
	return ours.Options{
		Client: r.Client, Runtime: r.RuntimeClient, Recorder: recorder, Now: time.Now,
		InPlace: feature.Gates.Enabled(feature.InPlaceUpdates), WatchFilter: r.WatchFilterValue,
	}
}

// steps returns our controller.
func (r *Reconciler) steps() *ours.Reconciler {
	c, err := ours.New(r.options(r.recorder), r.controller)
	if err != nil {
		panic(err)
	}
	return c
}

// SetupWithManager adds our controller to the manager of upstream's tests.
func (r *Reconciler) SetupWithManager(
	ctx context.Context, mgr ctrl.Manager, options controller.Options,
) error {
	recorder := mgr.GetEventRecorderFor("machinedeployment-controller")
	return ours.SetUpController(ctx, mgr, r.options(recorder), options)
}

// Reconcile reconciles one MachineDeployment.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return r.steps().Reconcile(ctx, request)
}

// MachineSetToDeployments returns the requests for a MachineSet without a controller.
func (r *Reconciler) MachineSetToDeployments(ctx context.Context, o client.Object) []ctrl.Request {
	return r.steps().ForOrphan(ctx, o)
}

func (r *Reconciler) getMachineDeploymentsForMachineSet(
	ctx context.Context, set *clusterv1.MachineSet,
) []*clusterv1.MachineDeployment {
	return r.steps().AdoptersOf(ctx, set)
}

func (r *Reconciler) getAndAdoptMachineSetsForDeployment(
	ctx context.Context, s *scope,
) (err error) {
	s.machineSets, err = r.steps().OwnedSets(ctx, s.machineDeployment)
	return err
}

func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) error {
	return r.steps().Delete(ctx, s.machineDeployment)
}

func (r *Reconciler) createOrUpdateMachineSetsAndSyncMachineDeploymentRevision(
	ctx context.Context, p *rolloutPlanner,
) error {
	plan := pool.Plan{Revision: p.revision}
	for _, set := range p.oldMSs {
		plan.Old = append(plan.Old, pool.SetPlan{Current: p.originalMSs[set.Name], Desired: set})
	}
	if p.newMS != nil {
		plan.New = &pool.SetPlan{Current: p.originalMSs[p.newMS.Name], Desired: p.newMS}
	}
	return r.steps().Execute(ctx, p.md, plan)
}
