package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	coreadmission "sigs.k8s.io/cluster-api/core/webhooks/admission"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/cluster-api/util/conditions"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// Limits tells how far the machines of a group can be moved at once.
type Limits interface {
	// GroupMinors returns a number of minors; 0 means any number that skew allows.
	GroupMinors(ctx context.Context, cluster *clusterv1.Cluster, md *clusterv1.MachineDeployment) (int, error)
}

// Options is what the controller works with. All but Limits, OwnPlanner, OwnGraph, Gates and WatchFilter is required.
type Options struct {
	// Client reads from a cache, unstructured objects too; APIReader does not.
	Client    client.Client
	APIReader client.Reader
	// Runtime calls runtime extensions.
	Runtime  runtimeclient.Client
	Recorder events.EventRecorder
	Now      func() time.Time
	// Limits is nil where machines are always replaced.
	Limits Limits
	// OwnPlanner is the name under which this project's own GenerateUpgradePlan handler is registered. Of its answer only the control plane's
	// versions count, since this engine plans every group by itself.
	OwnPlanner string
	// OwnGraph returns what that planner makes plans from, of which Versions and Stops count; nil means that nobody knows.
	OwnGraph func(context.Context, *clusterv1.Cluster) (plan.Graph, error)
	// ControlPlaneNodes returns the names of the Nodes of a workload cluster's control plane, live. It is asked
	// only before a step is taken back.
	ControlPlaneNodes func(ctx context.Context, cluster types.NamespacedName) ([]string, error)
	// Gates says that UpgradeGates can be watched: hooks are asked again as soon as one of a Cluster that
	// waits changes.
	Gates bool
	// WatchFilter is the value of Cluster API's watch label; empty means all.
	WatchFilter string
}

// Reconciler reconciles Clusters with a managed topology.
type Reconciler struct {
	Options
	objects *Objects
	answers chain.Answers
	plans   planCache
	// settled are the fingerprints of Clusters for which there was nothing to write.
	settled    keyed.Memory[types.NamespacedName, string]
	controller capicontroller.Controller
	tracker    external.ObjectTracker
}

// SetUpController adds the controller to a manager.
func SetUpController(ctx context.Context, mgr ctrl.Manager, o Options, controllerOptions controller.Options) error {
	objects, err := New(ObjectOptions{Client: o.Client, APIReader: o.APIReader, Runtime: o.Runtime, Recorder: o.Recorder, Now: o.Now})
	if err != nil {
		return fmt.Errorf("setting up the topology controller: %w", err)
	}
	r := &Reconciler{Options: o, objects: objects, plans: newPlanCache(ctx)}
	return r.watch(ctx, mgr, controllerOptions)
}

// ClassNotReconciledError says that the ClusterClass cannot be used as it is.
type ClassNotReconciledError struct{ Class, Problem string }

func (e *ClassNotReconciledError) Error() string {
	return fmt.Sprintf("ClusterClass %s is not reconciled: %s; its own conditions say why", e.Class, e.Problem)
}

// Reconcile brings one Cluster a step on.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, request.NamespacedName, cluster); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(request)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("getting Cluster %s: %w", request, err)
	}
	if !cluster.Spec.Topology.IsDefined() {
		return ctrl.Result{}, nil
	}
	run := &run{Reconciler: r, cluster: cluster.DeepCopy()}
	result, err := run.reconcile(ctx)
	if statusErr := run.writeStatus(ctx, cluster, err); statusErr != nil {
		return ctrl.Result{}, errors.Join(err, statusErr)
	}
	if outdated(err) {
		// Somebody else has written the Cluster in between: what was decided on an older state is not carried out, nor is it worth a word.
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	return result, err
}

// conflictRetry gives the cache time to show what another writer has written.
const conflictRetry = time.Second

func (r *Reconciler) forget(request ctrl.Request) {
	r.controller.ClearConsistencyStore(request.NamespacedName, "")
	r.objects.Forget(request.NamespacedName)
	r.answers.Forget(request.NamespacedName)
	r.settled.Forget(request.NamespacedName)
}

// run is one reconcile of one Cluster.
type run struct {
	*Reconciler
	cluster   *clusterv1.Cluster
	class     *clusterv1.ClusterClass
	blueprint *scope.ClusterBlueprint
	current   *scope.ClusterState

	state    chain.State
	recorded chain.Recorded
	// kept is what the extension that makes plans has said; nil when none was asked.
	kept *keptPlan
	// decision is the last one; it is only there when decided.
	decision chain.Decision
	decided  bool
}

// maxRecords bounds how many decisions that only record something are made on one reading of the objects. The longest such way is the end of one
// control plane step and the begin of the next.
const maxRecords = 8

func (r *run) reconcile(ctx context.Context) (ctrl.Result, error) {
	if err := r.read(ctx); err != nil {
		return ctrl.Result{}, err
	}
	effects := &effects{run: r}
	for range maxRecords {
		r.state.Answers = r.answers.Of(client.ObjectKeyFromObject(r.cluster))
		now := r.Now()
		r.decision, r.decided = chain.Decide(r.state, now), true
		outcome, err := chain.Execute(ctx, r.state, r.recorded, r.decision, now, effects)
		if err != nil {
			return ctrl.Result{}, err
		}
		r.log(ctx)
		outcome = r.remember(outcome)
		// What a record says is known without reading it again; what an effect on objects does is not.
		if outcome.Recorded == nil || effects.changed {
			return ctrl.Result{RequeueAfter: cmp.Or(outcome.RequeueAfter, r.refusePlan())}, nil
		}
	}
	return ctrl.Result{RequeueAfter: conflictRetry}, nil
}

// remember returns the outcome with the time at which a hook that holds the Cluster is asked again.
func (r *run) remember(outcome chain.Outcome) chain.Outcome {
	key := client.ObjectKeyFromObject(r.cluster)
	switch {
	case outcome.Answer != nil:
		kept := r.answers.Remember(key, *outcome.Answer)
		outcome.RequeueAfter = min(outcome.RequeueAfter, kept.Until.Sub(kept.Given))
		// The condition should say what the hook said, and not that it was called.
		r.state.Answers = r.answers.Of(key)
		r.decision = chain.Decide(r.state, r.Now())
	case outcome.Recorded != nil:
		r.answers.Forget(key)
		r.recorded = *outcome.Recorded
		r.state = r.state.With(r.recorded)
	}
	return outcome
}

// read reads everything that a decision depends on. Of a Cluster that is paused or goes nothing but itself counts.
func (r *run) read(ctx context.Context) error {
	objects := snapshot.Objects{Cluster: r.cluster}
	var err error
	if r.state, r.recorded, err = snapshot.Chain(objects); err != nil {
		return err
	}
	if r.state.Deleting {
		// Kinds may go with the Cluster; nothing must wait for their caches.
		r.controller.ClearConsistencyStore(client.ObjectKeyFromObject(r.cluster), r.cluster.UID)
	}
	if r.state.Paused || r.state.Deleting {
		return nil
	}
	if err := r.readTopology(ctx); err != nil {
		return err
	}
	if objects.Machines, err = r.groupMachines(ctx); err != nil {
		return err
	}
	objects.ControlPlane = r.current.ControlPlane.Object
	for _, md := range r.current.MachineDeployments {
		objects.MachineDeployments = append(objects.MachineDeployments, md.Object)
	}
	for _, mp := range r.current.MachinePools {
		objects.MachinePools = append(objects.MachinePools, mp.Object)
	}
	if r.state, r.recorded, err = snapshot.Chain(objects); err != nil {
		return err
	}
	if err := r.readSource(ctx); err != nil {
		return err
	}
	if r.state.NeedsBack() {
		r.state.JoinProblem = r.joinProblem(ctx, objects.Machines)
	}
	return nil
}

// readTopology reads the class, its templates and the objects that were made from them, and repairs those that the API server has damaged.
func (r *run) readTopology(ctx context.Context) error {
	if err := r.readClass(ctx); err != nil {
		return err
	}
	var err error
	if r.blueprint, err = r.objects.ReadBlueprint(ctx, r.cluster, r.class); err != nil {
		return err
	}
	if r.current, err = r.objects.ReadCurrent(ctx, r.cluster, r.blueprint); err != nil {
		return err
	}
	if err := r.watchReferenced(ctx); err != nil {
		return err
	}
	return r.repairOwnership(ctx)
}

// readClass reads the ClusterClass, once it has been looked at, and completes the Cluster's variables from it: a class that did not
// exist when the Cluster was created could not give it defaults.
func (r *run) readClass(ctx context.Context) error {
	r.class = &clusterv1.ClusterClass{}
	key := r.cluster.GetClassKey()
	if err := r.Client.Get(ctx, key, r.class); err != nil {
		return fmt.Errorf("getting ClusterClass %s: %w", key, err)
	}
	if r.class.Generation != r.class.Status.ObservedGeneration {
		return &ClassNotReconciledError{Class: key.String(), Problem: "its status.observedGeneration is not its metadata.generation"}
	}
	if !conditions.IsTrue(r.class, clusterv1.ClusterClassVariablesReadyCondition) {
		return &ClassNotReconciledError{Class: key.String(), Problem: "its condition " + clusterv1.ClusterClassVariablesReadyCondition + " is not True"}
	}
	before := r.cluster.Spec.Topology.DeepCopy()
	if problems := (&coreadmission.Cluster{}).DefaultAndValidateVariables(ctx, r.cluster, nil, r.class); len(problems) > 0 {
		return apierrors.NewInvalid(clusterv1.GroupVersion.WithKind("Cluster").GroupKind(), r.cluster.Name, problems)
	}
	if !equality.Semantic.DeepEqual(before, &r.cluster.Spec.Topology) {
		ctrl.LoggerFrom(ctx).Info("variables that had no value have the default of the class")
	}
	return nil
}

func (r *run) groupMachines(ctx context.Context) ([]*clusterv1.Machine, error) {
	var list clusterv1.MachineList
	err := r.Client.List(ctx, &list, client.InNamespace(r.cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: r.cluster.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the Machines of Cluster %s: %w", client.ObjectKeyFromObject(r.cluster), err)
	}
	machines := make([]*clusterv1.Machine, len(list.Items))
	for i := range list.Items {
		machines[i] = &list.Items[i]
	}
	return machines, nil
}

// log says what was done. What waits is in the condition, and hooks say for themselves what came of them.
func (r *run) log(ctx context.Context) {
	switch r.decision.Action.(type) {
	case chain.Create, chain.Note, chain.RaiseControlPlane, chain.RaiseWorkers:
		ctrl.LoggerFrom(ctx).Info(r.decision.Message, "reason", r.decision.Reason)
	case chain.Wait, chain.CallHook:
	}
}
