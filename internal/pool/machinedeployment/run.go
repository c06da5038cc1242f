package machinedeployment

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/objects"
	"github.com/windlass-dev/windlass/internal/text"
)

// conflictRetry gives the cache time to show what another writer has written.
const conflictRetry = time.Second

// What the cache has MachineSets and MachineDeployments as.
var (
	machineSetType = capicontroller.StructuredObject(clusterv1.GroupVersion, "MachineSet")
	deploymentType = capicontroller.StructuredObject(clusterv1.GroupVersion, "MachineDeployment")
)

// run is one reconcile of one MachineDeployment.
type run struct {
	*Reconciler
	cluster *clusterv1.Cluster
	// md is changed during the run; read is as it was read. finish writes the difference.
	md, read *clusterv1.MachineDeployment
	// machines are those that md selects, and sets those that it controls, both by name.
	machines []*clusterv1.Machine
	sets     []*clusterv1.MachineSet
	setsRead bool
	// unadopted are the MachineSets that md selects and could not adopt, and unadoptedErr says why.
	unadopted    []*clusterv1.MachineSet
	unadoptedErr error

	templates templates
	// suffix is that of the name of a MachineSet that this run creates.
	suffix string
	// policy is that of the group.
	policy policy.Policy
	// keep says that no change may create or delete a Machine of the group now.
	keep bool
	// refusals are the messages of extensions that keep the Machines of a MachineSet, by its name.
	refusals map[string]string
	// notAsked says that the next run has to ask a question for which this one had no time.
	notAsked bool
	// held is why the run ended before it could decide on Machines; nil for other reasons.
	held *pool.Decision
	// executed is what was written; nil if the run ended before.
	executed *executed
}

// executed is a plan after it was written.
type executed struct {
	pool.Plan
	// newest is the MachineSet of the current template; nil if a pause prevents that it is created.
	newest *clusterv1.MachineSet
	old    []*clusterv1.MachineSet
}

func (r *run) name() string { return client.ObjectKeyFromObject(r.md).String() }

func (r *run) event(kind, reason, format string, arguments ...any) {
	r.Recorder.Eventf(r.md, kind, reason, format, arguments...)
}

// errRestored ends a run that has given MachineSets their managed fields back: it has not observed
// the MachineDeployment. No event begins the next run, for nothing else of the MachineSets changed.
var errRestored = errors.New("managed fields of MachineSets were restored")

// retry returns the result of a run that failed. A conflict is not reported: what was read is out
// of date, and the next run decides on what is there then. Neither is errRestored.
func retry(ctx context.Context, err, writeErr error) (ctrl.Result, error) {
	isReal := func(err error) bool {
		return err != nil && !apierrors.IsConflict(err) && !errors.Is(err, errRestored)
	}
	if !isReal(err) && !isReal(writeErr) {
		ctrl.LoggerFrom(ctx).V(4).Info("The next run decides on what is there then",
			"cause", errors.Join(err, writeErr))
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	return ctrl.Result{}, errors.Join(err, writeErr)
}

func (r *run) reconcile(ctx context.Context) (ctrl.Result, error) {
	if !r.md.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.reconcileDelete(ctx)
	}
	r.claimMachineDeployment()
	if err := r.claimTemplates(ctx); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.readSets(ctx); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.requireSets(ctx); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.restoreOwnership(ctx); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.nameSets(ctx); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.followUpCanaries(ctx); err != nil {
		return ctrl.Result{}, err
	}
	plan, err := r.decideOrResume(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.execute(ctx, plan); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.cleanUp(ctx); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.requeueAfter()}, nil
}

// decide plans by the UpdatePolicy that the cache shows. Before a change of the MachineDeployment
// begins that may replace Machines, the API server has the last word: a policy that was created
// just before the change may not be in the cache yet.
func (r *run) decide(ctx context.Context) (pool.Plan, error) {
	if r.Keeps == nil {
		return r.plan(ctx)
	}
	if err := r.readPolicy(ctx, r.Keeps); err != nil {
		return pool.Plan{}, err
	}
	plan, err := r.plan(ctx)
	if err != nil || !r.begins(plan) || r.keep || r.policy.HandOver || r.KeepsNow == nil {
		return plan, err
	}
	if err := r.readPolicy(ctx, r.KeepsNow); err != nil {
		return pool.Plan{}, err
	}
	return r.plan(ctx)
}

// begins reports whether a plan is the first one after a change of the MachineDeployment, and may
// replace Machines: it creates the new MachineSet, or the strategy has become another one.
func (r *run) begins(plan pool.Plan) bool {
	isNew := plan.New != nil && plan.New.Current == nil
	changed := r.md.Generation != r.md.Status.ObservedGeneration
	return isNew && len(plan.Old) > 0 || changed && plan.LeavesMachines()
}

// plan asks for the answers that the rules need, and then the rules.
func (r *run) plan(ctx context.Context) (pool.Plan, error) {
	group, coverage, err := r.answers(ctx, r.group())
	if _, ok := errors.AsType[*pool.InvalidGroupError](err); ok {
		r.event(corev1.EventTypeWarning, failedPlan, "%v", err)
	}
	if err != nil {
		return pool.Plan{}, err
	}
	r.keep = group.Keep
	r.refusals = make(map[string]string)
	for set, c := range coverage {
		if c.Refused {
			r.refusals[set] = c.Reason
		}
	}
	return pool.Decide(group, coverage) //nolint:wrapcheck // It names the MachineDeployment.
}

// group is what the rules read.
func (r *run) group() pool.Group {
	if r.suffix == "" {
		r.suffix = r.random(pool.SuffixLength)
	}
	return pool.Group{
		MachineDeployment: r.md, MachineSets: r.sets, Machines: r.machines, Now: r.Now(),
		Clock:          r.clock,
		Suffix:         r.suffix,
		TemplatesExist: r.templates.complete(), InPlaceUpdates: r.InPlace, Keep: r.keep,
		Limits:         pool.LimitsOf(r.policy, r.md),
		UpdateOnDelete: r.policy.UpdateOnDelete && pool.IsOnDelete(r.md),
	}
}

func (r *run) readPolicy(ctx context.Context, of PolicyOf) (err error) {
	if r.policy, err = of(ctx, r.cluster, r.md); err != nil {
		return fmt.Errorf("finding the UpdatePolicy of MachineDeployment %s: %w", r.name(), err)
	}
	r.keep = pool.Keeps(r.policy, r.md)
	return nil
}

// askCoverage answers the questions of the rules, by the name of the MachineSet that Machines
// leave. For a group whose Machines are kept, a question that fails is answered too: people can
// scale the group meanwhile. For others the run ends, and nothing is replaced because of the
// failure.
func (r *run) askCoverage(ctx context.Context, group pool.Group) (map[string]pool.Coverage, error) {
	questions, err := pool.Needs(group)
	if err != nil {
		return nil, err
	}
	coverage := make(map[string]pool.Coverage, len(questions))
	began := r.Now()
	for _, q := range questions {
		answer, err := r.askFor(ctx, q, askingTime-r.Now().Sub(began))
		switch {
		case err != nil && r.keep:
			coverage[q.Old.Name] = r.failed(err)
		case err != nil:
			return nil, fmt.Errorf("finding out whether Machines of MachineSet %s can be updated "+
				"in place: %w", q.Old.Name, err)
		case answer.covered:
			coverage[q.Old.Name] = pool.Coverage{Answer: pool.AnswerYes}
		default:
			coverage[q.Old.Name] = pool.Coverage{Answer: pool.AnswerNo, Reason: answer.reason}
		}
		ctrl.LoggerFrom(ctx).V(5).Info("Asked whether Machines can be updated in place",
			"MachineSet", q.Old.Name, "covered", answer.covered, "reason", coverage[q.Old.Name].Reason)
	}
	return coverage, nil
}

// askFor asks one question. If the Machines of the group are kept it waits for no longer than left,
// and leaves the question to the next run if that is not enough.
func (r *run) askFor(
	ctx context.Context, q pool.Question, left time.Duration,
) (answer, error) {
	if !r.keep {
		return r.coverage.ask(ctx, q.Old, q.New)
	}
	got, err := r.coverage.askKept(ctx, q.Old, q.New, left)
	r.notAsked = r.notAsked || errors.Is(err, errNotAsked)
	return got, err
}

// failed is the answer to a question that ended with an error. Only in a group whose Machines are
// kept a refusal is AnswerNo: in others AnswerNo has Machines replaced.
func (r *run) failed(err error) pool.Coverage {
	refused, ok := errors.AsType[*cover.NotCoveredError](err)
	if !ok || !r.keep {
		return pool.Coverage{Answer: pool.AnswerUnknown, Reason: err.Error()}
	}
	return pool.Coverage{
		Answer: pool.AnswerNo, Reason: text.Bound(refused.Message, maxConditionBytes), Refused: true,
	}
}

// requeueAfter is when time alone changes the decision: spec.rollout.after passes, an answer that
// blocks the group can be asked for again, or a soak time or deadline ends. 0 means never.
func (r *run) requeueAfter() time.Duration {
	var after time.Duration
	if at := r.md.Spec.Rollout.After; !at.IsZero() && at.After(r.Now()) {
		after = at.Sub(r.Now()) + time.Millisecond // rollout.after has passed then, not just arrived.
	}
	// Nothing watches templates either.
	blocked := r.executed != nil && r.executed.Blocked() != nil
	if r.keep && (blocked || r.waitsForTaker() || !r.paused() && !r.templates.complete()) {
		after = sooner(after, answerLifetime)
	}
	if r.notAsked {
		after = sooner(after, nextQuestion)
	}
	if r.executed != nil && !r.executed.Wake.IsZero() {
		after = sooner(after, max(r.executed.Wake.Sub(r.Now()), time.Millisecond))
	}
	return after
}

// sooner returns the shorter of two waits; a is 0 if there is none so far.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// restoreOwnership gives MachineSets back the managed fields that the API server has lost, before
// anything is applied to them. It returns errRestored if it wrote.
func (r *run) restoreOwnership(ctx context.Context) error {
	var restored error
	for _, set := range r.sets {
		wrote, err := objects.RestoreOwnership(ctx, r.Client, set, manager)
		if err != nil {
			return err //nolint:wrapcheck // It names the MachineSet.
		}
		if wrote {
			r.awaitCache(set)
			restored = errRestored
		}
	}
	return restored
}

// awaitCache defers the next run until the cache shows a MachineSet as it was written.
func (r *run) awaitCache(set *clusterv1.MachineSet) { r.await(machineSetType, set.ResourceVersion) }

func (r *run) await(kind capicontroller.GroupVersionKindType, resourceVersion string) {
	r.controller.DeferNextReconcileUntilCacheUpToDate(r.md, kind, resourceVersion)
}

// reconcileDelete deletes the MachineSets, and removes the finalizer when none is left.
func (r *run) reconcileDelete(ctx context.Context) error {
	if err := r.readSets(ctx); err != nil {
		return err
	}
	if len(r.sets) == 0 {
		r.controller.ClearConsistencyStore(client.ObjectKeyFromObject(r.md), r.md.UID)
		controllerutil.RemoveFinalizer(r.md, clusterv1.MachineDeploymentFinalizer)
		return nil
	}
	for _, set := range r.sets {
		if !set.DeletionTimestamp.IsZero() {
			continue
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, set)); err != nil {
			return fmt.Errorf("deleting MachineSet %s of MachineDeployment %s, which is deleted: %w",
				set.Name, r.name(), err)
		}
		ctrl.LoggerFrom(ctx).Info("Deleted a MachineSet, because its MachineDeployment is deleted",
			"MachineSet", set.Name)
	}
	return nil
}
