package machinedeployment

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	events "k8s.io/client-go/tools/record"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/util"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/objects"
	"github.com/windlass-dev/windlass/internal/record"
)

// Options is what the controller works with. Client, Recorder and Now are required.
type Options struct {
	// Client reads from a cache, unstructured objects too.
	Client client.Client
	// Runtime calls runtime extensions. It is required if InPlace.
	Runtime runtimeclient.Client
	// Recorder records Events on MachineDeployments.
	Recorder events.EventRecorder
	// Now is the clock.
	Now func() time.Time
	// InPlace says that the feature gate InPlaceUpdates is on.
	InPlace bool
	// Keeps returns what an UpdatePolicy asks for the group; nil means that there are no policies.
	Keeps PolicyOf
	// KeepsNow is Keeps by what the API server has, not the cache. It is asked before Machines are
	// replaced; nil means that Keeps is enough.
	KeepsNow PolicyOf
	// HandOvers hands groups over as a whole; nil means that a policy that asks for it holds its
	// group.
	HandOvers HandOvers
	// PoliciesExist reports whether UpdatePolicies are installed. Keeps requires it. Once it says yes,
	// they are watched.
	PoliciesExist func() (bool, error)
	// StatusInterval is the least time between two writes of a status of which the second may wait,
	// see [pool.DeploymentStatusMayWait]; between others there is at least a second. 0 means that no
	// status waits, and that there is a second between two reconciles.
	StatusInterval time.Duration
	// WatchFilter is the value of Cluster API's watch label; empty means all.
	WatchFilter string
}

// PolicyOf finds the UpdatePolicy of a group.
type PolicyOf func(
	context.Context, *clusterv1.Cluster, *clusterv1.MachineDeployment,
) (policy.Policy, error)

// Reconciler reconciles MachineDeployments.
type Reconciler struct {
	Options
	coverage *coverage
	// takers remembers answers about hand-overs, by question, as coverage does.
	takers     keyed.Memory[string, pool.Coverage]
	applier    *objects.Applier
	pace       *objects.Pace
	clock      *record.Clock
	controller capicontroller.Controller
	// deleter deletes MachineSets and returns them as they are then.
	deleter capicontroller.ClientWithDeleteResponse
	// random returns so many random characters for the name of a MachineSet.
	random func(int) string
}

// SetUpController adds the controller to a manager.
func SetUpController(
	ctx context.Context, mgr ctrl.Manager, o Options, options controller.Options,
) error {
	r, err := New(o, nil)
	if err != nil {
		return err
	}
	sets := schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "machinesets"}
	r.deleter, err = capicontroller.NewClientWithDeleteResponse(
		&clusterv1.MachineSet{}, sets, mgr.GetScheme(), mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making the client that deletes MachineSets: %w", err)
	}
	return r.watch(ctx, mgr, options)
}

// New returns a Reconciler that no manager runs. c defers reconciles. It returns an error if an
// option is missing that the others require.
func New(o Options, c capicontroller.Controller) (*Reconciler, error) {
	switch {
	case o.Client == nil || o.Recorder == nil || o.Now == nil:
		return nil, errors.New("machinedeployment: Client, Recorder and Now are required")
	case o.Keeps != nil && o.PoliciesExist == nil:
		return nil, errors.New("machinedeployment: Keeps requires PoliciesExist")
	case o.InPlace && o.Runtime == nil:
		return nil, errors.New("machinedeployment: InPlace requires Runtime")
	}
	return &Reconciler{
		Options: o, coverage: newCoverage(o.Client, o.Runtime, o.Now),
		takers:  keyed.Memory[string, pool.Coverage]{Most: maxAnswers},
		applier: objects.NewApplier(o.Client, o.Now), random: rand.String, controller: c,
		deleter: capicontroller.NewClientWithDeleteResponseFromClient(o.Client),
		pace:    &objects.Pace{Least: time.Second, Interval: o.StatusInterval},
		clock:   record.NewClock(),
	}, nil
}

// Reconcile brings one MachineDeployment a step on.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	md := &clusterv1.MachineDeployment{}
	if err := r.Client.Get(ctx, request.NamespacedName, md); err != nil {
		if apierrors.IsNotFound(err) {
			r.controller.ClearConsistencyStore(request.NamespacedName, "")
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("getting MachineDeployment %s: %w", request, err)
	}
	if r.StatusInterval > 0 {
		// Cluster API's builder leaves a second. Runs are cheap, and each of them may be the next step
		// of a Machine; writes of the status have their own limit. The first steps after a change follow
		// at once.
		after := objects.Between
		if md.Generation == md.Status.ObservedGeneration {
			after = objects.BetweenReconciles(md.Spec.Replicas, md.Status.Replicas)
		}
		r.controller.DeferNextReconcile(request, r.Now().Add(after))
	}
	ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("Cluster", client.ObjectKey{
		Namespace: md.Namespace, Name: md.Spec.ClusterName,
	}))
	cluster, err := util.GetClusterByName(ctx, r.Client, md.Namespace, md.Spec.ClusterName)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("getting Cluster %s of MachineDeployment %s: %w",
			md.Spec.ClusterName, request, err)
	}
	// The finalizer goes first: a MachineDeployment that is deleted meanwhile must not leave
	// MachineSets behind.
	added, err := finalizers.EnsureFinalizer(ctx, r.Client, md, clusterv1.MachineDeploymentFinalizer)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("adding the finalizer of MachineDeployment %s: %w", request, err)
	}
	if added {
		return ctrl.Result{}, nil
	}
	return r.reconcileClaimed(ctx, cluster, md)
}

// reconcileClaimed is Reconcile for a MachineDeployment that has the finalizer.
func (r *Reconciler) reconcileClaimed(
	ctx context.Context, cluster *clusterv1.Cluster, md *clusterv1.MachineDeployment,
) (ctrl.Result, error) {
	run := &run{Reconciler: r, cluster: cluster, md: md, read: md.DeepCopy()}
	isPaused, written, err := paused.EnsurePausedCondition(ctx, r.Client, cluster, md)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the condition Paused of MachineDeployment %s: %w",
			run.name(), err)
	}
	if written && !isPaused {
		// The write of a condition enqueues only if Paused becomes another status.
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	if isPaused {
		return ctrl.Result{}, nil
	}
	if err := run.readMachines(ctx); err != nil {
		return ctrl.Result{}, err
	}
	result, err := run.reconcile(ctx)
	wait, writeErr := run.finish(ctx, err)
	if err != nil || writeErr != nil {
		return retry(ctx, err, writeErr)
	}
	return util.LowestNonZeroResult(result, ctrl.Result{RequeueAfter: wait}), nil
}
