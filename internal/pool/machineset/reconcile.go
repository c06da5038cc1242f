package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	clog "sigs.k8s.io/cluster-api/util/log"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/condition"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// Delays before a reconcile that no event causes.
const (
	// machinesPerStep: if Machines are replaced, so many of them lengthen the time between two runs of
	// their MachineSet by objects.Between.
	machinesPerStep = 10
	// conflictRetry gives the cache time to show what another writer has written.
	conflictRetry = time.Second
	// restoredRetry is after a repair of managed fields: nothing watches the repaired objects.
	restoredRetry = time.Second
	// preflightRetry is how often failed preflight checks run again: nothing watches the control
	// plane.
	preflightRetry = 15 * time.Second
	// notReadyRetry is how often the Nodes of Machines that are not ready are counted: nothing
	// watches them.
	notReadyRetry = 15 * time.Second
)

// Run is one reconcile of one MachineSet. It owns its objects. Its steps are exported, so that each
// can be tested alone.
type Run struct {
	*Reconciler
	Cluster *clusterv1.Cluster
	// Set is written at the end of the run, as far as it differs from what was read.
	Set *clusterv1.MachineSet
	// Deployment is nil for a MachineSet without a MachineDeployment.
	Deployment *clusterv1.MachineDeployment
	// Machines are those that the MachineSet controls; Listed is false until they were read.
	Machines []*clusterv1.Machine
	Listed   bool
	// BootstrapMissing and InfrastructureMissing are set for templates that do not exist.
	BootstrapMissing, InfrastructureMissing bool
	// wrote tells that the run has created or moved Machines, or started their updates: the next run
	// follows at once, and counts anew.
	wrote bool
	// Blocked are the messages of the preflight checks that kept the run from creating Machines.
	Blocked []string
	// Policy is that of the group; the zero value for stock's behavior.
	Policy policy.Policy
	// Start is the time of the run.
	Start time.Time
}

// Next says how a run continues after a step.
type Next struct {
	// After is how long until the MachineSet must be reconciled again, even without an event; 0 means
	// that events suffice.
	After time.Duration
	// Stop omits the later steps.
	Stop bool
}

// A step is a part of a run.
type step struct {
	doing string
	do    func(context.Context) (Next, error)
}

// Reconcile takes one MachineSet a step further.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	set := &clusterv1.MachineSet{}
	if err := r.Client.Get(ctx, request.NamespacedName, set); err != nil {
		if apierrors.IsNotFound(err) {
			r.controller.ClearConsistencyStore(request.NamespacedName, "")
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("getting MachineSet %s: %w", request, err)
	}
	ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues(
		"Cluster", klog.KRef(set.Namespace, set.Spec.ClusterName)))
	ctx, _, err := clog.AddOwners(ctx, r.Client, set)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the owners of MachineSet %s: %w", request, err)
	}
	cluster, err := util.GetClusterByName(ctx, r.Client, set.Namespace, set.Spec.ClusterName)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("getting the Cluster of MachineSet %s: %w", request, err)
	}
	// The finalizer precedes everything else: the objects of a Machine must not outlive the
	// MachineSet.
	if err := r.ensureFinalizer(ctx, set); err != nil {
		return ctrl.Result{}, err
	}
	before := set.DeepCopy()
	paused, err := r.ensurePaused(ctx, cluster, before, set)
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	case err != nil || paused:
		return ctrl.Result{}, err
	}
	run := &Run{Reconciler: r, Start: r.Now(), Cluster: cluster, Set: set}
	result, err := run.reconcile(ctx)
	return run.finish(ctx, before, result, err)
}

func (r *Reconciler) ensureFinalizer(ctx context.Context, set *clusterv1.MachineSet) error {
	if !set.DeletionTimestamp.IsZero() ||
		controllerutil.ContainsFinalizer(set, clusterv1.MachineSetFinalizer) {
		return nil
	}
	before := set.DeepCopy()
	controllerutil.AddFinalizer(set, clusterv1.MachineSetFinalizer)
	if err := objects.Merge(ctx, r.Client, before, set); err != nil {
		return fmt.Errorf("adding the finalizer to MachineSet %s: %w",
			client.ObjectKeyFromObject(set), err)
	}
	return nil
}

// ensurePaused sets the condition Paused. A change to or from paused is written at once: those who
// pause wait for the condition, and must not find an old one while the MachineSet is reconciled.
// Otherwise the condition is written with the rest of status. before and set get what was written.
func (r *Reconciler) ensurePaused(
	ctx context.Context, cluster *clusterv1.Cluster, before, set *clusterv1.MachineSet,
) (paused bool, err error) {
	wanted := pausedCondition(cluster, set)
	paused = wanted.Status == metav1.ConditionTrue
	found := conditions.Get(before, clusterv1.PausedCondition)
	condition.SetOn(set, wanted)
	if found != nil && conditions.HasSameState(found, &wanted) {
		return paused, nil
	}
	if !paused && (found == nil || found.Status == metav1.ConditionFalse) {
		return false, nil
	}
	written := set.DeepCopy()
	if err := objects.SaveStatus(ctx, r.Client, before, written); err != nil {
		return paused, err
	}
	written.DeepCopyInto(before)
	written.DeepCopyInto(set)
	return paused, nil
}

// pausedCondition has the words of Cluster API.
func pausedCondition(cluster *clusterv1.Cluster, set *clusterv1.MachineSet) metav1.Condition {
	var causes []string
	if cluster.Spec.Paused != nil && *cluster.Spec.Paused {
		causes = append(causes, "Cluster spec.paused is set to true")
	}
	if annotations.HasPaused(set) {
		causes = append(causes, "MachineSet has the cluster.x-k8s.io/paused annotation")
	}
	c := notPaused(set)
	if len(causes) > 0 {
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.PausedReason
		c.Message = strings.Join(causes, ", ")
	}
	return c
}

func notPaused(o client.Object) metav1.Condition {
	return metav1.Condition{
		Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse,
		Reason: clusterv1.NotPausedReason, ObservedGeneration: o.GetGeneration(),
	}
}

// reconcile does the steps for the MachineSet. A step that fails does not keep later ones from
// their work, unless it says so.
func (r *Run) reconcile(ctx context.Context) (ctrl.Result, error) {
	if err := r.readDeployment(ctx); err != nil {
		return ctrl.Result{}, err
	}
	r.hasten()
	r.CompleteMetadata()
	steps := []step{
		{"reconciling the infrastructure template", r.readInfrastructureTemplate},
		{"reconciling the bootstrap template", r.readBootstrapTemplate},
		{"reading Machines", r.ReadMachines},
		{"reading the policy", r.readPolicy},
	}
	if !r.Set.DeletionTimestamp.IsZero() {
		steps = append(steps, step{"deleting Machines", r.DeleteAll})
	} else {
		steps = append(steps,
			step{"remediating Machines", r.Remediate},
			step{"updating Machines", r.SyncMachines},
			step{"starting updates in place", r.CompleteMoves},
			step{"scaling", r.Scale},
		)
	}
	var result ctrl.Result
	var errs []error
	for _, s := range steps {
		next, err := s.do(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.doing, err))
		}
		result = util.LowestNonZeroResult(result, ctrl.Result{RequeueAfter: next.After})
		if next.Stop {
			break
		}
	}
	if len(errs) > 0 {
		return ctrl.Result{}, errors.Join(errs...)
	}
	return result, nil
}

// hasten allows the next run before the second that Cluster API's builder leaves between two runs:
// while Machines move, each MachineSet waits for what the MachineDeployment and the other one do
// next. When a MachineDeployment changes, its Machines change first, and cause a run before the
// first move.
//
// In a rollout that replaces Machines, the next step waits for this MachineSet. Fewer steps follow
// one another there, and each takes longer, so the time between two runs grows faster with the
// number of Machines.
func (r *Run) hasten() {
	if r.StatusInterval <= 0 || r.Deployment == nil {
		return
	}
	begins := r.Deployment.Generation != r.Deployment.Status.ObservedGeneration
	after := objects.Between
	switch moves := pool.Receives(r.Set) || pool.Sends(r.Set); {
	case begins:
	case moves:
		after = objects.BetweenReconciles(r.Set.Spec.Replicas, r.Set.Status.Replicas)
	case !pool.IsRolling(r.Set, r.hasRevision()):
		return
	default:
		n := max(orZero(r.Set.Spec.Replicas), orZero(r.Set.Status.Replicas))
		after = min(objects.Between*time.Duration(1+n/machinesPerStep), time.Second)
	}
	r.controller.DeferNextReconcileForObject(r.Set, r.Now().Add(after))
}

// finish writes status and what else has changed in the MachineSet.
func (r *Run) finish(
	ctx context.Context, before *clusterv1.MachineSet, result ctrl.Result, err error,
) (ctrl.Result, error) {
	if statusErr := r.UpdateStatus(ctx); statusErr != nil {
		err = errors.Join(err, fmt.Errorf("computing the status: %w", statusErr))
	}
	if err == nil {
		r.Set.Status.ObservedGeneration = r.Set.Generation
	}
	recount := r.recount()
	wait := r.holdStatus(before, err)
	if err == nil && r.changesStatus(before) && r.isOutdated(ctx, before) {
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	result = util.LowestNonZeroResult(result, ctrl.Result{RequeueAfter: wait})
	switch saveErr := r.save(ctx, before); {
	case apierrors.IsConflict(saveErr) && err == nil:
		// Somebody else has written the MachineSet. The next run reads that, and computes status
		// anew.
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	case saveErr != nil:
		return ctrl.Result{}, errors.Join(err, saveErr)
	case err != nil:
		return ctrl.Result{}, err
	}
	if r.Set.DeletionTimestamp.IsZero() {
		if r.Set.ResourceVersion != before.ResourceVersion {
			// Status that is computed from an older version would meet a conflict.
			kind := capicontroller.StructuredObject(clusterv1.GroupVersion, capi.MachineSetKind.Kind)
			r.await(kind, r.Set.ResourceVersion)
		}
		result = util.LowestNonZeroResult(result, ctrl.Result{RequeueAfter: recount})
	}
	return result, nil
}

// save writes what the run has changed in the MachineSet.
func (r *Run) save(ctx context.Context, before *clusterv1.MachineSet) error {
	writesStatus := r.changesStatus(before)
	err := objects.Save(ctx, r.Client, before, r.Set)
	if err == nil && writesStatus {
		r.pace.Wrote(r.Set.UID, r.Now())
	}
	return err //nolint:wrapcheck // It names the MachineSet.
}

// holdStatus leaves the status as it was read if nobody needs the new one now. It returns how long
// until the new one is due; 0 if it is written now, or nothing has to be written.
func (r *Run) holdStatus(before *clusterv1.MachineSet, err error) time.Duration {
	if !r.Set.DeletionTimestamp.IsZero() && len(r.Set.Finalizers) == 0 {
		// The object is gone with the next write: nobody reads its status.
		before.Status.DeepCopyInto(&r.Set.Status)
	}
	if !r.changesStatus(before) {
		return 0
	}
	if wait := r.statusWait(before); err == nil && wait > 0 {
		before.Status.DeepCopyInto(&r.Set.Status)
		return wait
	}
	return 0
}

// changesStatus reports whether the run has another status than the MachineSet that it read.
func (r *Run) changesStatus(before *clusterv1.MachineSet) bool {
	return !equality.Semantic.DeepEqual(before.Status, r.Set.Status)
}

// isOutdated reports whether the cache has a newer MachineSet than the one that the run has read.
// The API server would refuse a status that was computed from the older one. So an error counts as
// no: the write then tells.
func (r *Run) isOutdated(ctx context.Context, read *clusterv1.MachineSet) bool {
	current := &clusterv1.MachineSet{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(read), current); err != nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(
		current.ResourceVersion, read.ResourceVersion)
	return err == nil && order > 0
}

// statusWait returns how long the status can be left as it was read; 0 if it is due.
func (r *Run) statusWait(before *clusterv1.MachineSet) time.Duration {
	if !r.Set.DeletionTimestamp.IsZero() {
		return 0
	}
	// A new MachineSet that waits for Machines gets them next.
	isNew := before.Status.ObservedGeneration == 0 && pool.Receives(r.Set)
	changesAgain := isNew || r.wrote || slices.ContainsFunc(r.Machines, pool.IsMovePending)
	if changesAgain && r.pace.Join(r.Set.UID, r.Now()) {
		return objects.Between
	}
	return r.pace.Wait(r.Set.UID, pool.SetStatusMayWait(before, r.Set, r.hasRevision()), r.Now())
}

// recount returns how long until the counters must be computed again without an event; 0 means that
// events suffice.
func (r *Run) recount() time.Duration {
	status, wanted := r.Set.Status, orZero(r.Set.Spec.Replicas)
	minReady := orZero(r.Set.Spec.Template.Spec.MinReadySeconds)
	switch ready := orZero(status.ReadyReplicas); {
	case ready != wanted:
		return notReadyRetry
	case minReady > 0 && orZero(status.AvailableReplicas) != wanted:
		return time.Duration(minReady) * time.Second
	}
	return 0
}

// await keeps the MachineSet from being reconciled before the cache shows an object as written.
func (r *Run) await(kind capicontroller.GroupVersionKindType, resourceVersion string) {
	if resourceVersion != "" {
		r.controller.DeferNextReconcileUntilCacheUpToDate(r.Set, kind, resourceVersion)
	}
}

func (r *Run) awaitMachine(m *clusterv1.Machine) {
	r.wrote = true
	r.await(capicontroller.StructuredObject(clusterv1.GroupVersion, "Machine"), m.ResourceVersion)
}

// orZero returns what a pointer points to; nil counts as 0.
func orZero(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
